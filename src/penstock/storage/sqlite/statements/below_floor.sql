-- Select up to :limit partitions that hold events below their floors, or events that are in files of the cold tier: the
-- first such offset, and where they end.
SELECT id, first - (id << 40), past
FROM (SELECT p.id, max(p.floor, p.cold_stop) AS past,
             (SELECT min(place) FROM penstock_event
              WHERE place >= p.id << 40 AND place < (p.id << 40) + max(p.floor, p.cold_stop)) AS first
      FROM penstock_partition AS p WHERE p.floor > 0 OR p.cold_stop > 0)
WHERE first IS NOT NULL
ORDER BY id
LIMIT :limit
