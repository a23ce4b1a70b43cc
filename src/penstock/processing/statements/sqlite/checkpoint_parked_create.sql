-- Streams that processors have set aside: from where on they are read again, and what somebody wants of them.
-- Names may be too long for an index.
CREATE TABLE IF NOT EXISTS {table}_parked (
    processor   TEXT NOT NULL,
    digest      TEXT NOT NULL,
    stream      TEXT NOT NULL,
    tranche     TEXT NOT NULL,
    first_index INTEGER NOT NULL,
    next_index  INTEGER NOT NULL,
    events      INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    tag         TEXT NOT NULL,
    detail      TEXT NOT NULL,
    since       TEXT NOT NULL,
    parked_at   INTEGER NOT NULL,
    request     TEXT,
    PRIMARY KEY (processor, digest, tranche)
) WITHOUT ROWID
