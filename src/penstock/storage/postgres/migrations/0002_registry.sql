-- The versions of event types' schemas, and the hub's settings. Safe beside a running service.

-- In the order of their ids; none is ever changed or removed but with its event type.
CREATE TABLE penstock_schema (
    id            integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_type_id integer NOT NULL REFERENCES penstock_event_type (id) ON DELETE CASCADE,
    version       text NOT NULL,
    definition    text NOT NULL,
    UNIQUE (event_type_id, version)
);

-- Event types of 0.1.0 had no schema: any event is what the first version of theirs allows.
INSERT INTO penstock_schema (event_type_id, version, definition)
SELECT id, '1.0.0', json_build_object('type', 'json_schema', 'schema', '{}', 'version', '1.0.0',
                                      'created_at', to_char(to_timestamp(created_at / 1e6) AT TIME ZONE 'UTC',
                                                            'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text
FROM penstock_event_type
ORDER BY id;

-- Of each kind those that differ from what a new hub has: who administers it, what is blocked, which features are on.
CREATE TABLE penstock_setting (
    kind  text NOT NULL,
    name  text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (kind, name)
);
