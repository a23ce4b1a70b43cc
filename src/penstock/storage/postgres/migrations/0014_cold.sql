-- The cold tier: ranges of partitions that left the database for files. Safe beside a running service; hubs of an older
-- version must be stopped before one of this version seals events.

-- Events below it are in files, and are deleted here.
ALTER TABLE penstock_partition ADD COLUMN cold_stop bigint NOT NULL DEFAULT 0;

-- A file, and the range of offsets that it has, from start to before stop. It is `writing` while a hub writes it, so that
-- what is left of it is found if that hub is killed; `sealed` once it was read back and verified; `removed` when its
-- events have expired or another file has replaced it, until it is deleted.
CREATE TABLE penstock_cold_file (
    path          text PRIMARY KEY,
    partition_id  integer NOT NULL REFERENCES penstock_partition (id),
    state         text NOT NULL CHECK (state IN ('writing', 'sealed', 'removed')),
    start         bigint NOT NULL CHECK (start >= 0),
    stop          bigint NOT NULL CHECK (stop > start),
    events        bigint NOT NULL DEFAULT 0,
    data_bytes    bigint NOT NULL DEFAULT 0,
    file_bytes    bigint NOT NULL DEFAULT 0,
    received_from bigint NOT NULL DEFAULT 0,
    received_to   bigint NOT NULL DEFAULT 0,
    digest        text NOT NULL DEFAULT '',
    changed_at    bigint NOT NULL
);

CREATE INDEX penstock_cold_file_range ON penstock_cold_file (partition_id, stop);

CREATE OR REPLACE FUNCTION penstock_event_is_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM (SELECT partition_id, max("offset") AS last FROM gone GROUP BY partition_id) AS d
               JOIN penstock_partition AS p ON p.id = d.partition_id
               WHERE d.last >= greatest(p.floor, p.cold_stop))
       AND EXISTS (SELECT 1 FROM gone AS d
                   JOIN penstock_partition AS p ON p.id = d.partition_id
                   WHERE d."offset" >= greatest(p.floor, p.cold_stop)
                     AND coalesce((SELECT h.stop FROM penstock_hole AS h
                                   WHERE h.partition_id = d.partition_id AND h.start <= d."offset"
                                   ORDER BY h.start DESC LIMIT 1), 0) <= d."offset") THEN
        RAISE EXCEPTION 'penstock: events are removed by retention, compaction and erasure only';
    END IF;
    RETURN NULL;
END $$;
