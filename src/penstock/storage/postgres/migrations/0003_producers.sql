-- Who publishes idempotently, and what has been published so. Safe beside a running service.

-- A producer group in one partition; an id is never used twice. Appends lock the row and change it only with its epoch:
-- where its numbers have come to is what its last batch says. So it does not bloat.
CREATE TABLE penstock_producer (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition_id         integer NOT NULL REFERENCES penstock_partition (id),
    name                 text COLLATE "C" NOT NULL,
    epoch                bigint NOT NULL,
    begins               bigint NOT NULL,
    previous_epoch       bigint,
    previous_next        bigint,
    previous_last_offset bigint,
    claim_id             text,
    is_pinned            boolean NOT NULL,
    is_expired           boolean NOT NULL,
    updated_at           bigint NOT NULL,
    UNIQUE (partition_id, name)
);

-- A batch of such a producer: its events' numbers go on densely from that of its first, and so do their offsets.
CREATE TABLE penstock_produced (
    producer_id bigint NOT NULL REFERENCES penstock_producer (id),
    epoch       bigint NOT NULL,
    number      bigint NOT NULL CHECK (number >= 0),
    events      integer NOT NULL CHECK (events > 0),
    "offset"    bigint NOT NULL CHECK ("offset" >= 0),
    appended_at bigint NOT NULL,
    digests     bytea NOT NULL CHECK (length(digests) = 16 * events),
    PRIMARY KEY (producer_id, epoch, number)
);

-- Digests cannot be packed: nobody is to try.
ALTER TABLE penstock_produced ALTER COLUMN digests SET STORAGE EXTERNAL;

-- No number is given to two events: who comes second waits for the producer's row, and then sees what the first has
-- appended, which it would not under a stricter isolation. The last batch that begins before this one ends is the only one
-- that can reach into it.
CREATE FUNCTION penstock_produced_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'penstock: numbers of a producer are given under READ COMMITTED only';
    END IF;
    PERFORM 1 FROM penstock_producer WHERE id = NEW.producer_id FOR UPDATE;
    IF NEW.number < (SELECT number + events FROM penstock_produced
                     WHERE producer_id = NEW.producer_id AND epoch = NEW.epoch AND number < NEW.number + NEW.events
                     ORDER BY number DESC LIMIT 1) THEN
        RAISE EXCEPTION 'penstock: a number of a producer is given to one event only';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION penstock_produced_is_never_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'penstock: what was produced is never changed';
END $$;

CREATE TRIGGER penstock_produced_once BEFORE INSERT ON penstock_produced
    FOR EACH ROW EXECUTE FUNCTION penstock_produced_once();
CREATE TRIGGER penstock_produced_is_never_changed BEFORE UPDATE ON penstock_produced
    FOR EACH ROW EXECUTE FUNCTION penstock_produced_is_never_changed();
