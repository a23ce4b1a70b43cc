-- Delete an event type whose partitions were dropped.
DELETE FROM penstock_event_type WHERE name = :name
