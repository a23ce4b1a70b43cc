-- Streams that are handled beyond their tranche's position: the index wanted next.
CREATE TABLE IF NOT EXISTS {table}_ahead (
    processor  text NOT NULL,
    tranche    text NOT NULL,
    stream     text NOT NULL,
    next_index bigint NOT NULL,
    PRIMARY KEY (processor, tranche, stream)
)
