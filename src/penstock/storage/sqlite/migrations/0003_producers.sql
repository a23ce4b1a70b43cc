-- Who publishes idempotently, and what has been published so. Safe beside a running service.

-- A producer group in one partition; an id is never used twice. Appends lock the row and change it only with its epoch:
-- where its numbers have come to is what its last batch says.
CREATE TABLE penstock_producer (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    partition_id         INTEGER NOT NULL REFERENCES penstock_partition (id),
    name                 TEXT NOT NULL,
    epoch                INTEGER NOT NULL,
    begins               INTEGER NOT NULL,
    previous_epoch       INTEGER,
    previous_next        INTEGER,
    previous_last_offset INTEGER,
    claim_id             TEXT,
    is_pinned            INTEGER NOT NULL,
    is_expired           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    UNIQUE (partition_id, name)
) STRICT;

-- A batch of such a producer: its events' numbers go on densely from that of its first, and so do their offsets.
CREATE TABLE penstock_produced (
    id          INTEGER PRIMARY KEY,
    producer_id INTEGER NOT NULL REFERENCES penstock_producer (id),
    epoch       INTEGER NOT NULL,
    number      INTEGER NOT NULL CHECK (number >= 0),
    events      INTEGER NOT NULL CHECK (events > 0),
    "offset"    INTEGER NOT NULL CHECK ("offset" >= 0),
    appended_at INTEGER NOT NULL,
    digests     BLOB NOT NULL CHECK (length(digests) = 16 * events),
    UNIQUE (producer_id, epoch, number)
) STRICT;

-- No number is given to two events. The last batch that begins before this one ends is the only one that can reach into it.
CREATE TRIGGER penstock_produced_once BEFORE INSERT ON penstock_produced
WHEN NEW.number < (SELECT number + events FROM penstock_produced
                   WHERE producer_id = NEW.producer_id AND epoch = NEW.epoch AND number < NEW.number + NEW.events
                   ORDER BY number DESC LIMIT 1)
BEGIN SELECT RAISE(ABORT, 'penstock: a number of a producer is given to one event only'); END;

CREATE TRIGGER penstock_produced_is_never_changed BEFORE UPDATE ON penstock_produced
BEGIN SELECT RAISE(ABORT, 'penstock: what was produced is never changed'); END;
