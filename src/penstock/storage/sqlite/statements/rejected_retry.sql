-- Put rejected rows, chosen like `rejected_find`, back into the outbox in the order of their ids, byte for byte.
INSERT INTO penstock_outbox (event_type, data, key, headers, "partition", created_at)
SELECT event_type, data, key, headers, "partition", created_at FROM penstock_rejected
WHERE (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids))) AND (:event_type IS NULL OR event_type = :event_type)
ORDER BY id
