-- Select the offset after the first events of a range whose data are at least :size bytes.
SELECT "offset" + 1
FROM (SELECT "offset", sum(octet_length(data)) OVER (ORDER BY "offset") AS size
      FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop) AS e
WHERE size >= :size
ORDER BY "offset"
LIMIT 1
