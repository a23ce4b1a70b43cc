-- Select up to :limit partitions that hold events below their floors: the first such offset, and the floor.
SELECT p.id, e."offset", p.floor
FROM penstock_partition AS p
CROSS JOIN LATERAL (SELECT "offset" FROM penstock_event
                    WHERE partition_id = p.id AND "offset" < p.floor ORDER BY "offset" LIMIT 1) AS e
WHERE p.floor > 0
ORDER BY p.id
LIMIT :limit
