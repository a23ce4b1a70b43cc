-- Select up to :limit event types, the one with the most events first: number of retained events, time of the newest, mean size
-- of the newest 8 in each of 4 partitions, and how many event types there are.
SELECT m.name, m.events, m.received_at, sampled.size, m.total
FROM (
    SELECT id, name, events, received_at, count(*) OVER () AS total FROM (
        SELECT t.id, t.name, sum(coalesce(greatest(0, e."offset" + 1 - a.floor), 0))::bigint AS events,
               max(e.received_at) AS received_at
        FROM penstock_event_type AS t
        JOIN penstock_partition AS a ON a.event_type_id = t.id
        LEFT JOIN LATERAL (SELECT "offset", received_at FROM penstock_event
                           WHERE partition_id = a.id ORDER BY "offset" DESC LIMIT 1) AS e ON true
        GROUP BY t.id) AS measured
    ORDER BY events DESC, name COLLATE "C"
    LIMIT :limit) AS m
CROSS JOIN LATERAL (
    SELECT avg(octet_length(e.data))::double precision AS size
    FROM penstock_partition AS a
    CROSS JOIN LATERAL (SELECT data FROM penstock_event
                        WHERE partition_id = a.id ORDER BY "offset" DESC LIMIT 8) AS e
    WHERE a.event_type_id = m.id AND a.number < 4) AS sampled
ORDER BY m.events DESC, m.name COLLATE "C"
