-- Delete the holes of the partition :partition_id that end before :stop, below its floor.
DELETE FROM penstock_hole
WHERE partition_id = :partition_id AND stop <= :stop
  AND stop <= (SELECT floor FROM penstock_partition WHERE id = :partition_id)
