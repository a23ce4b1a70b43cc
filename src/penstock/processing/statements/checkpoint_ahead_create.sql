-- Streams that are handled beyond their tranche's position: the index wanted next. Names may be too long for an index.
CREATE TABLE IF NOT EXISTS {table}_ahead (
    processor  text NOT NULL,
    tranche    text NOT NULL,
    digest     text NOT NULL,
    stream     text NOT NULL,
    next_index bigint NOT NULL,
    PRIMARY KEY (processor, tranche, digest)
) WITHOUT ROWID
