-- Give a producer group of an event type to :owner, unless it has one.
INSERT INTO penstock_producer_owner (event_type_id, "group", owner)
SELECT id, :group, :owner FROM penstock_event_type WHERE name = :event_type
ON CONFLICT DO NOTHING
