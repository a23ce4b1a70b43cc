-- Select the owner of a producer group of an event type.
SELECT o.owner
FROM penstock_producer_owner AS o
JOIN penstock_event_type AS t ON t.id = o.event_type_id
WHERE t.name = :event_type AND o."group" = :group
