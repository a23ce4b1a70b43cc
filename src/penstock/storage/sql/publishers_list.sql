-- Select who has published to the event type :name since it exists, and since :since.
SELECT p.caller, p.seen_at FROM penstock_publisher AS p JOIN penstock_event_type AS t ON t.name = p.event_type
WHERE p.event_type = :name AND p.seen_at >= t.created_at AND p.seen_at >= :since
ORDER BY p.caller
