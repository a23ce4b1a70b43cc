-- Remove the first :limit rows of the event type :name and return them. RETURNING keeps no order: the caller sorts.
DELETE FROM penstock_outbox
WHERE id IN (SELECT id FROM penstock_outbox WHERE event_type = :name ORDER BY id LIMIT :limit)
RETURNING id, event_type, data, key, headers, "partition", created_at
