-- Select the subscriptions that read an event type.
SELECT r.subscription FROM penstock_subscription_source AS r
JOIN penstock_event_type AS t ON t.id = r.event_type_id
WHERE t.name = :event_type
