-- Select up to :limit consumer groups with positions, the one whose uncommitted event is oldest first: gap, time of that event,
-- time of the last commit, partitions without a way on, since when the partition with waiting events that has stood
-- longest stands where it is, and how many such groups there are. Of the positions in one partition
-- the slowest counts, and what is of another epoch than its feed has nothing committed. Of an event in a file
-- of the cold tier it is the time of the first event in that.
WITH standing AS (
    SELECT p."group" AS name, p.source, p.tranche, p.updated_at,
           (a.id IS NULL OR p.epoch <> t.epoch OR p."offset" < a.floor)::integer AS is_stuck,
           greatest(0, greatest(newest."offset" + 1, a.cold_stop) - at.wanted) AS gap,
           coalesce(sealed.received_from, oldest.received_at) AS received_at
    FROM penstock_position AS p
    LEFT JOIN penstock_event_type AS t ON t.name = p.source
    LEFT JOIN penstock_partition AS a ON a.event_type_id = t.id AND a.number = p.tranche
    CROSS JOIN LATERAL (SELECT greatest(a.floor, CASE WHEN p.epoch = t.epoch THEN p."offset" ELSE 0 END) AS wanted) AS at
    LEFT JOIN LATERAL (SELECT "offset" FROM penstock_event
                       WHERE partition_id = a.id AND "offset" >= a.floor ORDER BY "offset" DESC LIMIT 1) AS newest ON true
    LEFT JOIN LATERAL (SELECT received_at FROM penstock_event
                       WHERE partition_id = a.id AND "offset" >= at.wanted ORDER BY "offset" LIMIT 1) AS oldest ON true
    LEFT JOIN LATERAL (SELECT received_from FROM penstock_cold_file
                       WHERE partition_id = a.id AND state = 'sealed' AND events > 0 AND stop > at.wanted
                       ORDER BY stop LIMIT 1) AS sealed ON true
), slowest AS (
    SELECT name, coalesce(max(gap), 0) AS gap, min(received_at) AS received_at, max(updated_at) AS updated_at,
           max(is_stuck) AS is_stuck
    FROM standing GROUP BY name, source, tranche
), measured AS (
    SELECT name, sum(gap)::bigint AS gap, min(received_at) AS received_at, max(updated_at) AS updated_at, sum(is_stuck) AS stuck,
           min(greatest(updated_at, received_at)) FILTER (WHERE gap > 0) AS stands_since
    FROM slowest GROUP BY name
)
SELECT m.name, g.kind, coalesce(s.owning_application, ''), m.gap, m.received_at, m.updated_at, m.stuck, m.stands_since, count(*) OVER ()
FROM measured AS m
JOIN penstock_group AS g ON g.name = m.name
LEFT JOIN penstock_subscription AS s ON s.id = m.name
ORDER BY m.received_at NULLS LAST, m.gap DESC, m.stuck DESC, m.name COLLATE "C"
LIMIT :limit
