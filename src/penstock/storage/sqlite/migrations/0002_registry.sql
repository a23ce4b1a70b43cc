-- The versions of event types' schemas, and the hub's settings. Safe beside a running service.

-- In the order of their ids; none is ever changed or removed but with its event type.
CREATE TABLE penstock_schema (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    event_type_id INTEGER NOT NULL REFERENCES penstock_event_type (id) ON DELETE CASCADE,
    version       TEXT NOT NULL,
    definition    TEXT NOT NULL,
    UNIQUE (event_type_id, version)
) STRICT;

-- Of each kind those that differ from what a new hub has: who administers it, what is blocked, which features are on.
CREATE TABLE penstock_setting (
    kind  TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
