-- The ids of events that a consumer has seen, in the order in which each partition brought them. The key begins with the
-- partition, so that no planner, however little it knows of the table, takes it for the index to look up ids in.
CREATE TABLE IF NOT EXISTS {table} (
    feed        text NOT NULL,
    consumer    text NOT NULL,
    "partition" integer NOT NULL,
    place       bigint NOT NULL,
    eid         text NOT NULL,
    seen_at     bigint NOT NULL,
    PRIMARY KEY ("partition", feed, consumer, place, eid),
    UNIQUE (consumer, eid, feed)
) WITHOUT ROWID
