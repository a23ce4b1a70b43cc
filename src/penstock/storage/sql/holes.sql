-- Select the holes of the partition :partition_id that lie in a range or reach into it, in order.
SELECT start, stop FROM penstock_hole
WHERE partition_id = :partition_id AND start < :stop
  AND start >= coalesce((SELECT max(start) FROM penstock_hole WHERE partition_id = :partition_id AND start <= :start), 0)
ORDER BY start
