-- The log, event types, the outbox and consumers' positions. Safe beside a running service.

CREATE TABLE penstock_event_type (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    category   text NOT NULL CHECK (category IN ('undefined', 'business', 'data')),
    epoch      integer NOT NULL,
    revision   integer NOT NULL,
    definition text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

-- The last epoch of every name there ever was: a feed created again must not accept its predecessor's cursors. That of the
-- empty name, which no feed has, is the one that all names begin after.
CREATE TABLE penstock_epoch (
    name  text PRIMARY KEY,
    epoch integer NOT NULL
);

INSERT INTO penstock_epoch VALUES ('', 0);

-- An id is never used twice. No event type: dropped, its events wait to be purged. The row is the partition's head:
-- appends lock it and never update it, so that it does not bloat.
CREATE TABLE penstock_partition (
    id            integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_type_id integer REFERENCES penstock_event_type (id),
    number        integer NOT NULL CHECK (number >= 0),
    floor         bigint NOT NULL DEFAULT 0,
    UNIQUE (event_type_id, number)
);

CREATE TABLE penstock_event (
    partition_id integer NOT NULL,
    "offset"     bigint NOT NULL CHECK ("offset" >= 0),
    received_at  bigint NOT NULL,
    key          text,
    kind         text,
    headers      text,
    data         text NOT NULL,
    PRIMARY KEY (partition_id, "offset")
);

CREATE FUNCTION penstock_event_is_never_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'penstock: events are never changed';
END $$;

CREATE FUNCTION penstock_event_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD."offset" >= (SELECT floor FROM penstock_partition WHERE id = OLD.partition_id) THEN
        RAISE EXCEPTION 'penstock: events are removed by retention only';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER penstock_event_is_never_changed BEFORE UPDATE ON penstock_event
    FOR EACH ROW EXECUTE FUNCTION penstock_event_is_never_changed();
CREATE TRIGGER penstock_event_is_kept BEFORE DELETE ON penstock_event
    FOR EACH ROW EXECUTE FUNCTION penstock_event_is_kept();
CREATE TRIGGER penstock_event_is_never_truncated BEFORE TRUNCATE ON penstock_event
    FOR EACH STATEMENT EXECUTE FUNCTION penstock_event_is_never_changed();

-- xid tells which rows a look can find that the look before could not: see docs/architecture.md, "The outbox". There is
-- one index beside the primary key, so that no statistics can lead the planner through rows that were moved long ago.
CREATE TABLE IF NOT EXISTS penstock_outbox (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_type  text NOT NULL,
    data        text NOT NULL,
    key         text,
    headers     text,
    "partition" integer,
    created_at  timestamptz NOT NULL DEFAULT now(),
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX IF NOT EXISTS penstock_outbox_waiting ON penstock_outbox (xid, event_type);

CREATE TABLE penstock_rejected (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_type  text NOT NULL,
    data        text NOT NULL,
    key         text,
    headers     text,
    "partition" integer,
    created_at  timestamptz NOT NULL,
    rejected_at timestamptz NOT NULL,
    reason      text NOT NULL
);

CREATE TABLE penstock_group (
    name       text PRIMARY KEY,
    kind       text NOT NULL,
    created_at bigint NOT NULL
);

CREATE TABLE penstock_position (
    "group"    text NOT NULL REFERENCES penstock_group (name) ON DELETE CASCADE,
    source     text NOT NULL,
    slice      text NOT NULL,
    tranche    integer NOT NULL,
    epoch      integer NOT NULL,
    "offset"   bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY ("group", source, slice, tranche)
);
