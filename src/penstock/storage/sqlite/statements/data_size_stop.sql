-- Select the offset after the first events of a range whose data are at least :size bytes.
SELECT place - (:partition_id << 40) + 1
FROM (SELECT place, sum(length(CAST(data AS BLOB))) OVER (ORDER BY place ROWS UNBOUNDED PRECEDING) AS size
      FROM penstock_event
      WHERE place >= (:partition_id << 40) + :start AND place < (:partition_id << 40) + :stop)
WHERE size >= :size
LIMIT 1
