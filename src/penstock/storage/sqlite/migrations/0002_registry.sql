-- The versions of event types' schemas, the hub's settings, and events by place: all that waits to be written waits for that.

-- In the order of their ids; none is ever changed or removed but with its event type.
CREATE TABLE penstock_schema (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    event_type_id INTEGER NOT NULL REFERENCES penstock_event_type (id) ON DELETE CASCADE,
    version       TEXT NOT NULL,
    definition    TEXT NOT NULL,
    UNIQUE (event_type_id, version)
) STRICT;

-- Event types of 0.1.0 had no schema: any event is what the first version of theirs allows.
INSERT INTO penstock_schema (event_type_id, version, definition)
SELECT id, '1.0.0', json_object('type', 'json_schema', 'schema', '{}', 'version', '1.0.0',
                                'created_at', strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1e6, 'unixepoch'))
FROM penstock_event_type
ORDER BY id;

-- Of each kind those that differ from what a new hub has: who administers it, what is blocked, which features are on.
CREATE TABLE penstock_setting (
    kind  TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Events by place, partition and offset in one number: to find a place no event is looked into. With a key of two columns
-- SQLite reads whole events, however large, to compare their keys. Clustered as before: a page is one range of neighbours.
CREATE TABLE penstock_event_by_place (
    place        INTEGER PRIMARY KEY,
    received_at  INTEGER NOT NULL,
    shape        TEXT NOT NULL,
    key          TEXT,
    kind         TEXT,
    headers      TEXT,
    data         TEXT NOT NULL,
    partition_id INTEGER NOT NULL GENERATED ALWAYS AS (place >> 40) VIRTUAL CHECK (partition_id > 0),
    "offset"     INTEGER NOT NULL GENERATED ALWAYS AS (place & 0xffffffffff) VIRTUAL
) STRICT;

INSERT INTO penstock_event_by_place (place, received_at, shape, key, kind, headers, data)
SELECT (partition_id << 40) + "offset", received_at, shape, key, kind, headers, data
FROM penstock_event
ORDER BY partition_id, "offset";

DROP TABLE penstock_event;

ALTER TABLE penstock_event_by_place RENAME TO penstock_event;

-- Whoever writes REPLACE on purpose gets past these: a trigger against that would make every append a quarter slower.
CREATE TRIGGER penstock_event_is_never_changed BEFORE UPDATE ON penstock_event
BEGIN SELECT RAISE(ABORT, 'penstock: events are never changed'); END;

CREATE TRIGGER penstock_event_is_kept BEFORE DELETE ON penstock_event
WHEN OLD."offset" >= (SELECT floor FROM penstock_partition WHERE id = OLD.partition_id)
BEGIN SELECT RAISE(ABORT, 'penstock: events are removed by retention only'); END;
