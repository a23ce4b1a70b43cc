-- Remembers which of the ids in the batch, a list of [partition, ids] in JSON, are new to the consumer, and returns those.
-- Places follow upon the partition's last, which OFFSET has found once for each partition, and are given to new ids alone:
-- repeats shorten no window. OFFSET also has each id looked up by itself: a planner that expects thousands of them, as it
-- does of any list, would rather read the whole table. An id that another transaction is adding is waited for; sorted by id, so that two which add
-- the same do not wait for each other.
INSERT INTO {table} (feed, consumer, "partition", place, eid, seen_at)
SELECT
    CAST(:feed AS text),
    CAST(:consumer AS text),
    part."partition",
    part.last + row_number() OVER (PARTITION BY part."partition" ORDER BY given.place),
    given.eid,
    CAST(:now AS bigint)
FROM (
    SELECT
        CAST(value ->> 0 AS integer) AS "partition",
        value -> 1 AS eids,
        coalesce((
            SELECT max(place) FROM {table}
            WHERE feed = CAST(:feed AS text) AND consumer = CAST(:consumer AS text)
                AND "partition" = CAST(value ->> 0 AS integer)
        ), 0) AS last
    FROM json_array_elements(CAST(CAST(:batch AS text) AS json)) AS listed (value)
    OFFSET 0
) AS part
CROSS JOIN LATERAL json_array_elements_text(part.eids) WITH ORDINALITY AS given (eid, place)
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM {table} AS kept
        WHERE kept.consumer = CAST(:consumer AS text) AND kept.eid = given.eid AND kept.feed = CAST(:feed AS text)
    ) AS is_known
    OFFSET 0
) AS found
WHERE NOT found.is_known
ORDER BY given.eid COLLATE "C"
ON CONFLICT DO NOTHING
RETURNING eid
