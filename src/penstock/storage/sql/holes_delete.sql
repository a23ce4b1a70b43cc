-- Delete the holes of the partition :partition_id within a range.
DELETE FROM penstock_hole
WHERE partition_id = :partition_id AND start >= :start AND start < :stop AND stop <= :stop
