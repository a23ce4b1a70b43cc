-- Batches are made of uploads, and of nothing else: a batch that its tasks publish themselves is gone. One of those that was not
-- complete is forgotten; its events stay. Stop the hubs of the version before first: they still ask for the columns.
-- SQLite cannot drop a column that a check names, so the table is made anew; dropping the old one would clear the references.
DELETE FROM penstock_batch WHERE epoch IS NOT NULL AND done < chunks;

CREATE TEMPORARY TABLE penstock_taken AS SELECT id, batch_id FROM penstock_upload WHERE batch_id IS NOT NULL;

CREATE TABLE penstock_batch_new (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    event_type_id INTEGER NOT NULL REFERENCES penstock_event_type (id) ON DELETE CASCADE,
    "group"       TEXT NOT NULL,
    number        INTEGER NOT NULL CHECK (number >= 0),
    query         TEXT NOT NULL,
    chunks        INTEGER NOT NULL CHECK (chunks >= 0),
    done          INTEGER NOT NULL CHECK (done BETWEEN 0 AND chunks),
    events        INTEGER NOT NULL,
    rejected      INTEGER NOT NULL,
    offsets       TEXT NOT NULL,
    begun_at      INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    UNIQUE (event_type_id, "group", number)
) STRICT;
INSERT INTO penstock_batch_new
SELECT id, event_type_id, "group", number, query, chunks, done, events, rejected, offsets, begun_at, updated_at
FROM penstock_batch;

DROP TABLE penstock_batch;
ALTER TABLE penstock_batch_new RENAME TO penstock_batch;
UPDATE penstock_upload
SET batch_id = (SELECT batch_id FROM penstock_taken WHERE id = penstock_upload.id)
WHERE id IN (SELECT id FROM penstock_taken);
DROP TABLE penstock_taken;
