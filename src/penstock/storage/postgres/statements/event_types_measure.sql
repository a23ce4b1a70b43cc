-- Select up to :limit event types, the one with the most events first: number of retained events, time of the newest, and how
-- many event types there are.
SELECT name, events, received_at, count(*) OVER () FROM (
    SELECT t.name, sum(coalesce(greatest(0, e."offset" + 1 - a.floor), 0))::bigint AS events, max(e.received_at) AS received_at
    FROM penstock_event_type AS t
    JOIN penstock_partition AS a ON a.event_type_id = t.id
    LEFT JOIN LATERAL (SELECT "offset", received_at FROM penstock_event
                       WHERE partition_id = a.id ORDER BY "offset" DESC LIMIT 1) AS e ON true
    GROUP BY t.id) AS measured
ORDER BY events DESC, name COLLATE "C"
LIMIT :limit
