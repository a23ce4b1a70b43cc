-- The versions of event types' schemas, and the hub's settings. Safe beside a running service.

-- In the order of their ids; none is ever changed or removed but with its event type.
CREATE TABLE penstock_schema (
    id            integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_type_id integer NOT NULL REFERENCES penstock_event_type (id) ON DELETE CASCADE,
    version       text NOT NULL,
    definition    text NOT NULL,
    UNIQUE (event_type_id, version)
);

-- Of each kind those that differ from what a new hub has: who administers it, what is blocked, which features are on.
CREATE TABLE penstock_setting (
    kind  text NOT NULL,
    name  text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (kind, name)
);
