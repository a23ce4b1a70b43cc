-- Events that are removed one by one, above the floor of their partition. Safe beside a running service.

-- A range of offsets, from start to before stop, whose events were compacted or erased. Ranges neither touch nor overlap.
CREATE TABLE penstock_hole (
    partition_id INTEGER NOT NULL REFERENCES penstock_partition (id) ON DELETE CASCADE,
    start        INTEGER NOT NULL CHECK (start >= 0),
    stop         INTEGER NOT NULL CHECK (stop > start),
    PRIMARY KEY (partition_id, start)
) STRICT, WITHOUT ROWID;

-- The end of the last hole: from there on no event is missing. Its offset is not given again where it was the last one.
ALTER TABLE penstock_partition ADD COLUMN holes_stop INTEGER NOT NULL DEFAULT 0;

-- Events below it came before their event type was compacted: their keys are no compaction keys.
ALTER TABLE penstock_partition ADD COLUMN compacted_from INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER penstock_event_is_kept;

CREATE TRIGGER penstock_event_is_kept BEFORE DELETE ON penstock_event
WHEN OLD."offset" >= (SELECT floor FROM penstock_partition WHERE id = OLD.partition_id)
 AND coalesce((SELECT stop FROM penstock_hole WHERE partition_id = OLD.partition_id AND start <= OLD."offset"
               ORDER BY start DESC LIMIT 1), 0) <= OLD."offset"
BEGIN SELECT RAISE(ABORT, 'penstock: events are removed by retention, compaction and erasure only'); END;
