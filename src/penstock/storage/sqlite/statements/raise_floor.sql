-- Raise the floor of the partition :partition_id to :floor, unless it is higher already, and note when the last event below
-- was received.
UPDATE penstock_partition
SET floor = :floor,
    received_at = max(received_at, coalesce((SELECT received_at FROM penstock_event
                                              WHERE place >= :partition_id << 40
                                                AND place < (:partition_id << 40) + :floor
                                              ORDER BY place DESC LIMIT 1), 0))
WHERE id = :partition_id AND floor < :floor
