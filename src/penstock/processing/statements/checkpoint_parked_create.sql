-- Streams that processors have set aside: from where on they are read again, and what somebody wants of them.
-- Names may be too long for an index.
CREATE TABLE IF NOT EXISTS {table}_parked (
    processor   text NOT NULL,
    digest      text NOT NULL,
    stream      text NOT NULL,
    tranche     text NOT NULL,
    first_index bigint NOT NULL,
    next_index  bigint NOT NULL,
    events      bigint NOT NULL,
    attempts    bigint NOT NULL,
    tag         text NOT NULL,
    detail      text NOT NULL,
    since       text NOT NULL,
    parked_at   bigint NOT NULL,
    request     text,
    PRIMARY KEY (processor, digest, tranche)
) WITHOUT ROWID
