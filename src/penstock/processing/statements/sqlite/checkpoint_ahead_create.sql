-- Streams that are handled beyond their tranche's position: the index wanted next. Names may be too long for an index.
CREATE TABLE IF NOT EXISTS {table}_ahead (
    processor  TEXT NOT NULL,
    tranche    TEXT NOT NULL,
    digest     TEXT NOT NULL,
    stream     TEXT NOT NULL,
    next_index INTEGER NOT NULL,
    PRIMARY KEY (processor, tranche, digest)
) WITHOUT ROWID
