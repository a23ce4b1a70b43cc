-- The :limit rejected rows that came first, chosen like `rejected_find`; texts come as bytes, which may be no UTF-8.
SELECT id, CAST(event_type AS BLOB), CAST(data AS BLOB), CAST(key AS BLOB), CAST(headers AS BLOB), "partition",
       CAST(created_at AS BLOB), rejected_at, CAST(reason AS BLOB)
FROM penstock_rejected
WHERE (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids))) AND (:event_type IS NULL OR event_type = :event_type)
ORDER BY id ASC LIMIT :limit
