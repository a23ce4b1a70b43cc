-- What is handed in before it is published: chunks of events, and the batches that are made of them. Safe beside a running
-- service.

-- A batch of a producer group, published in steps: each moves `done` on in the transaction that appends its events. One that
-- its tasks publish directly is one chunk, and has a manifest: into how many partitions they divide it, and in which epoch.
CREATE TABLE penstock_batch (
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
    partitions    INTEGER,
    epoch         INTEGER,
    CHECK ((partitions IS NULL) = (epoch IS NULL)),
    UNIQUE (event_type_id, "group", number)
) STRICT;

-- What one task hands in for a batch. Most belong to none: their task has failed, or its driver. `place` is its order there.
CREATE TABLE penstock_upload (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT NOT NULL UNIQUE,
    event_type_id INTEGER REFERENCES penstock_event_type (id) ON DELETE SET NULL,
    "group"       TEXT NOT NULL,
    number        INTEGER NOT NULL,
    query         TEXT NOT NULL,
    batch_id      INTEGER REFERENCES penstock_batch (id) ON DELETE SET NULL,
    place         INTEGER,
    updated_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX penstock_upload_of ON penstock_upload (batch_id, place);
CREATE INDEX penstock_upload_at ON penstock_upload (event_type_id, updated_at);

-- Lines of an upload, as they were handed in. `rejected` has the numbers of those that are no valid events, and why.
CREATE TABLE penstock_chunk (
    upload_id INTEGER NOT NULL REFERENCES penstock_upload (id) ON DELETE CASCADE,
    number    INTEGER NOT NULL CHECK (number >= 0),
    events    INTEGER NOT NULL CHECK (events >= 0),
    digest    BLOB NOT NULL CHECK (length(digest) = 16),
    rejected  TEXT,
    body      BLOB NOT NULL,
    PRIMARY KEY (upload_id, number)
) STRICT;
