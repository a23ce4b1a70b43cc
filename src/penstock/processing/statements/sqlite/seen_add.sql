-- Remembers which of the ids in the batch, a list of [partition, ids] in JSON, are new to the consumer, and returns those.
-- Places follow upon the partition's last, which LIMIT has found once for each partition, and are given to new ids alone:
-- repeats shorten no window. Sorted by id, since that is how the index lies. It begins with INSERT, because Python's
-- driver begins a transaction for nothing else.
INSERT INTO {table} (feed, consumer, "partition", place, eid, seen_at)
SELECT
    :feed,
    :consumer,
    part."partition",
    part.last + row_number() OVER (PARTITION BY part."partition" ORDER BY given.key),
    given.value,
    :now
FROM (
    SELECT
        json_extract(value, '$[0]') AS "partition",
        json_extract(value, '$[1]') AS eids,
        coalesce((
            SELECT max(place) FROM {table}
            WHERE feed = :feed AND consumer = :consumer AND "partition" = json_extract(value, '$[0]')
        ), 0) AS last
    FROM json_each(:batch)
    LIMIT -1
) AS part CROSS JOIN json_each(part.eids) AS given
WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE consumer = :consumer AND eid = given.value AND feed = :feed)
ORDER BY given.value
ON CONFLICT DO NOTHING
RETURNING eid
