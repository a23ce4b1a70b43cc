-- Note that the partition :partition_id has a hole that ends at :stop, and when the last event of the hole was received,
-- which is still there.
UPDATE penstock_partition
SET holes_stop = :stop,
    received_at = max(received_at, coalesce((SELECT received_at FROM penstock_event
                                              WHERE place >= :partition_id << 40
                                                AND place < (:partition_id << 40) + :stop
                                              ORDER BY place DESC LIMIT 1), 0))
WHERE id = :partition_id AND holes_stop < :stop
