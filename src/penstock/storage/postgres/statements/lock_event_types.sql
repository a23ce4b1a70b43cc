-- Keep appends and drops away from all event types, in the order of appends, and the hub's own last, by name; an UPDATE
-- has no order.
SELECT id FROM penstock_event_type
ORDER BY CASE WHEN name IN (
    'nakadi.access.log', 'nakadi.audit.log', 'nakadi.batch.published', 'nakadi.data.streamed', 'nakadi.event.type.log',
    'nakadi.subscription.log'
) THEN name ELSE '' END COLLATE "C", id
FOR UPDATE
