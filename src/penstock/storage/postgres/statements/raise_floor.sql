-- Raise the floor of the partition :partition_id to :floor, unless it is higher already, and note when the last event below
-- was received.
UPDATE penstock_partition
SET floor = :floor,
    received_at = greatest(received_at, coalesce((SELECT e.received_at FROM penstock_event AS e
                                                   WHERE partition_id = :partition_id AND "offset" < :floor
                                                   ORDER BY "offset" DESC LIMIT 1), 0))
WHERE id = :partition_id AND floor < :floor
