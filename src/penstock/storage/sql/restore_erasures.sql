-- Give the erasures :ids (a JSON array) the new epochs of their event types.
UPDATE penstock_erasure
SET epoch = (SELECT epoch FROM penstock_event_type WHERE name = penstock_erasure.event_type)
WHERE id IN (SELECT value FROM json_each(:ids))
