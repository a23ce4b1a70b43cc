-- The ids of events that a consumer has seen, in the order in which each partition brought them.
CREATE TABLE IF NOT EXISTS {table} (
    feed        text NOT NULL,
    consumer    text NOT NULL,
    "partition" integer NOT NULL,
    place       bigint NOT NULL,
    eid         text NOT NULL,
    seen_at     bigint NOT NULL,
    PRIMARY KEY (feed, consumer, "partition", place, eid),
    UNIQUE (consumer, eid, feed)
)
