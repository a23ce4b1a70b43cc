-- Remembers which of the ids in the batch, a list of [partition, ids] in JSON, are new to the consumer, and returns those.
-- Places follow upon the partition's last, which OFFSET has found once for each partition. An id that another transaction
-- is adding is waited for; sorted by id, so that two which add the same do not wait for each other.
INSERT INTO {table} (feed, consumer, "partition", place, eid, seen_at)
SELECT
    CAST(:feed AS text),
    CAST(:consumer AS text),
    part."partition",
    part.last + given.place,
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
) AS part CROSS JOIN LATERAL json_array_elements_text(part.eids) WITH ORDINALITY AS given (eid, place)
ORDER BY given.eid COLLATE "C"
ON CONFLICT DO NOTHING
RETURNING eid
