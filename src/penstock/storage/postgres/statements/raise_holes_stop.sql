-- Note that the partition :partition_id has a hole that ends at :stop, and when the last event of the hole was received,
-- which is still there.
UPDATE penstock_partition
SET holes_stop = :stop,
    received_at = greatest(received_at, coalesce((SELECT e.received_at FROM penstock_event AS e
                                                   WHERE partition_id = :partition_id AND "offset" < :stop
                                                   ORDER BY "offset" DESC LIMIT 1), 0))
WHERE id = :partition_id AND holes_stop < :stop
