-- Detach the partitions of the event type :name, and lift their floors above all their events, also those in files,
-- so that it can be deleted.
UPDATE penstock_partition
SET event_type_id = NULL,
    floor = max(floor, cold_stop, coalesce((SELECT "offset" + 1 FROM penstock_event
                                             WHERE place >= penstock_partition.id << 40
                                               AND place < penstock_partition.id + 1 << 40
                                             ORDER BY place DESC LIMIT 1), 0))
WHERE event_type_id = (SELECT id FROM penstock_event_type WHERE name = :name)
