-- What is handed in before it is published: chunks of events, and the batches that are made of them. Safe beside a running
-- service.

-- A batch of a producer group, published in steps: each moves `done` on in the transaction that appends its events. One that
-- its tasks publish directly is one chunk, and has a manifest: into how many partitions they divide it, and in which epoch.
CREATE TABLE penstock_batch (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_type_id integer NOT NULL REFERENCES penstock_event_type (id) ON DELETE CASCADE,
    "group"       text COLLATE "C" NOT NULL,
    number        bigint NOT NULL CHECK (number >= 0),
    query         text COLLATE "C" NOT NULL,
    chunks        integer NOT NULL CHECK (chunks >= 0),
    done          integer NOT NULL CHECK (done BETWEEN 0 AND chunks),
    events        bigint NOT NULL,
    rejected      bigint NOT NULL,
    offsets       text NOT NULL,
    begun_at      bigint NOT NULL,
    updated_at    bigint NOT NULL,
    partitions    integer,
    epoch         bigint,
    CHECK ((partitions IS NULL) = (epoch IS NULL)),
    UNIQUE (event_type_id, "group", number)
);

-- What one task hands in for a batch. Most belong to none: their task has failed, or its driver. `place` is its order there.
CREATE TABLE penstock_upload (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE,
    event_type_id integer REFERENCES penstock_event_type (id) ON DELETE SET NULL,
    "group"       text COLLATE "C" NOT NULL,
    number        bigint NOT NULL,
    query         text COLLATE "C" NOT NULL,
    batch_id      bigint REFERENCES penstock_batch (id) ON DELETE SET NULL,
    place         integer,
    updated_at    bigint NOT NULL
);
CREATE INDEX penstock_upload_of ON penstock_upload (batch_id, place);
CREATE INDEX penstock_upload_at ON penstock_upload (event_type_id, updated_at);

-- Lines of an upload, as they were handed in. `rejected` has the numbers of those that are no valid events, and why.
CREATE TABLE penstock_chunk (
    upload_id bigint NOT NULL REFERENCES penstock_upload (id) ON DELETE CASCADE,
    number    integer NOT NULL CHECK (number >= 0),
    events    integer NOT NULL CHECK (events >= 0),
    digest    bytea NOT NULL CHECK (length(digest) = 16),
    rejected  text,
    body      bytea NOT NULL,
    PRIMARY KEY (upload_id, number)
);
