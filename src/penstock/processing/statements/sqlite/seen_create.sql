-- The ids of events that a consumer has seen, in the order in which each partition brought them.
CREATE TABLE IF NOT EXISTS {table} (
    feed        TEXT NOT NULL,
    consumer    TEXT NOT NULL,
    "partition" INTEGER NOT NULL,
    place       INTEGER NOT NULL,
    eid         TEXT NOT NULL,
    seen_at     INTEGER NOT NULL,
    PRIMARY KEY (feed, consumer, "partition", place, eid),
    UNIQUE (consumer, eid, feed)
) WITHOUT ROWID
