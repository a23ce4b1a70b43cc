-- The ids of events that a consumer has seen, in the order in which each partition brought them. The key begins with the
-- partition, so that no planner, however little it knows of the table, takes it for the index to look up ids in.
CREATE TABLE IF NOT EXISTS {table} (
    feed        TEXT NOT NULL,
    consumer    TEXT NOT NULL,
    "partition" INTEGER NOT NULL,
    place       INTEGER NOT NULL,
    eid         TEXT NOT NULL,
    seen_at     INTEGER NOT NULL,
    PRIMARY KEY ("partition", feed, consumer, place, eid),
    UNIQUE (consumer, eid, feed)
) WITHOUT ROWID
