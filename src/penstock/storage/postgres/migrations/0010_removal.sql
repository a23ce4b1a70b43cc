-- Events that are removed one by one, above the floor of their partition; and removing many at once. Safe beside a running
-- service.

-- A range of offsets, from start to before stop, whose events were compacted or erased. Ranges neither touch nor overlap.
CREATE TABLE penstock_hole (
    partition_id integer NOT NULL REFERENCES penstock_partition (id) ON DELETE CASCADE,
    start        bigint NOT NULL CHECK (start >= 0),
    stop         bigint NOT NULL CHECK (stop > start),
    PRIMARY KEY (partition_id, start)
);

-- The end of the last hole: from there on no event is missing. Its offset is not given again where it was the last one.
ALTER TABLE penstock_partition ADD COLUMN holes_stop bigint NOT NULL DEFAULT 0;

-- Events below it came before their event type was compacted: their keys are no compaction keys.
ALTER TABLE penstock_partition ADD COLUMN compacted_from bigint NOT NULL DEFAULT 0;

-- Once a statement: a trigger for each row makes deletions five times as slow.
DROP TRIGGER penstock_event_is_kept ON penstock_event;

CREATE OR REPLACE FUNCTION penstock_event_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM (SELECT partition_id, max("offset") AS last FROM gone GROUP BY partition_id) AS d
               JOIN penstock_partition AS p ON p.id = d.partition_id
               WHERE d.last >= p.floor)
       AND EXISTS (SELECT 1 FROM gone AS d
                   JOIN penstock_partition AS p ON p.id = d.partition_id
                   WHERE d."offset" >= p.floor
                     AND coalesce((SELECT h.stop FROM penstock_hole AS h
                                   WHERE h.partition_id = d.partition_id AND h.start <= d."offset"
                                   ORDER BY h.start DESC LIMIT 1), 0) <= d."offset") THEN
        RAISE EXCEPTION 'penstock: events are removed by retention, compaction and erasure only';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER penstock_event_is_kept AFTER DELETE ON penstock_event
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION penstock_event_is_kept();

-- Retention deletes as much as is published: the space is free again once it is vacuumed, so that is done early and at once.
ALTER TABLE penstock_event SET (autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.01,
                                autovacuum_vacuum_cost_delay = 0);
