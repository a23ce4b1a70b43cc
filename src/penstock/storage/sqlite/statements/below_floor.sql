-- Select up to :limit partitions that hold events below their floors: the first such offset, and the floor.
SELECT id, first - (id << 40), floor
FROM (SELECT p.id, p.floor,
             (SELECT min(place) FROM penstock_event
              WHERE place >= p.id << 40 AND place < (p.id << 40) + p.floor) AS first
      FROM penstock_partition AS p WHERE p.floor > 0)
WHERE first IS NOT NULL
ORDER BY id
LIMIT :limit
