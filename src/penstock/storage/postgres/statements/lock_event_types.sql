-- Keep appends and drops away from all event types, in the order of appends; an UPDATE has no order.
SELECT id FROM penstock_event_type ORDER BY id FOR UPDATE
