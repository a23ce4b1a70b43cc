-- Detach the partitions of the event type :name, and lift their floors above all their events, also those in files,
-- so that it can be deleted.
UPDATE penstock_partition AS p
SET event_type_id = NULL,
    floor = greatest(floor, cold_stop,
                     coalesce((SELECT max("offset") + 1 FROM penstock_event WHERE partition_id = p.id), 0))
WHERE event_type_id = (SELECT id FROM penstock_event_type WHERE name = :name)
