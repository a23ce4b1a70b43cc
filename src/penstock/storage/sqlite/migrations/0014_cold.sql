-- The cold tier: ranges of partitions that left the database for files. Safe beside a running service; hubs of an older
-- version must be stopped before one of this version seals events.

-- Events below it are in files, and are deleted here.
ALTER TABLE penstock_partition ADD COLUMN cold_stop INTEGER NOT NULL DEFAULT 0;

-- A file, and the range of offsets that it has, from start to before stop. It is `writing` while a hub writes it, so that
-- what is left of it is found if that hub is killed; `sealed` once it was read back and verified; `removed` when its
-- events have expired or another file has replaced it, until it is deleted.
CREATE TABLE penstock_cold_file (
    path          TEXT PRIMARY KEY,
    partition_id  INTEGER NOT NULL REFERENCES penstock_partition (id),
    state         TEXT NOT NULL CHECK (state IN ('writing', 'sealed', 'removed')),
    start         INTEGER NOT NULL CHECK (start >= 0),
    stop          INTEGER NOT NULL CHECK (stop > start),
    events        INTEGER NOT NULL DEFAULT 0,
    data_bytes    INTEGER NOT NULL DEFAULT 0,
    file_bytes    INTEGER NOT NULL DEFAULT 0,
    received_from INTEGER NOT NULL DEFAULT 0,
    received_to   INTEGER NOT NULL DEFAULT 0,
    digest        TEXT NOT NULL DEFAULT '',
    changed_at    INTEGER NOT NULL
) STRICT;

CREATE INDEX penstock_cold_file_range ON penstock_cold_file (partition_id, stop);

DROP TRIGGER penstock_event_is_kept;

CREATE TRIGGER penstock_event_is_kept BEFORE DELETE ON penstock_event
WHEN OLD."offset" >= (SELECT max(floor, cold_stop) FROM penstock_partition WHERE id = OLD.partition_id)
 AND coalesce((SELECT stop FROM penstock_hole WHERE partition_id = OLD.partition_id AND start <= OLD."offset"
               ORDER BY start DESC LIMIT 1), 0) <= OLD."offset"
BEGIN SELECT RAISE(ABORT, 'penstock: events are removed by retention, compaction and erasure only'); END;
