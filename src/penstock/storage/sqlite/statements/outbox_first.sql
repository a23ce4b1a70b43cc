-- The first :rows rows of the event type :name, each after the id of the last that waits. Texts come as bytes: a service
-- may have inserted what is no UTF-8, or bytes.
SELECT (SELECT max(id) FROM penstock_outbox WHERE event_type = :name),
       id, event_type, CAST(data AS BLOB), CAST(key AS BLOB), CAST(headers AS BLOB), "partition", CAST(created_at AS BLOB)
FROM penstock_outbox
WHERE event_type = :name
ORDER BY id LIMIT :rows
