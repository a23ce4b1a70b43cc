-- Keep appends and drops away from every event type, in the order that they keep to: an UPDATE has none of its own.
SELECT id FROM penstock_event_type ORDER BY id FOR UPDATE
