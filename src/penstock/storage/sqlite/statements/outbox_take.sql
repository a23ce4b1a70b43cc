-- Remove the first :limit rows of the event type :name and return them. RETURNING keeps no order: the caller sorts.
-- Texts come as bytes: a service may have inserted what is no UTF-8, or bytes.
DELETE FROM penstock_outbox
WHERE id IN (SELECT id FROM penstock_outbox WHERE event_type = :name ORDER BY id LIMIT :limit)
RETURNING id, event_type, CAST(data AS BLOB), CAST(key AS BLOB), CAST(headers AS BLOB), "partition",
          CAST(created_at AS BLOB)
