-- Select up to :limit partitions that hold events below their floors, or events that are in files of the cold tier: the
-- first such offset, and where they end.
SELECT p.id, e."offset", greatest(p.floor, p.cold_stop)
FROM penstock_partition AS p
CROSS JOIN LATERAL (SELECT "offset" FROM penstock_event
                    WHERE partition_id = p.id AND "offset" < greatest(p.floor, p.cold_stop)
                    ORDER BY "offset" LIMIT 1) AS e
WHERE p.floor > 0 OR p.cold_stop > 0
ORDER BY p.id
LIMIT :limit
