-- The first :limit rejected rows, the newest first where :newest, else the oldest, chosen like `rejected_find`, and behind
-- the row :after (NULL: from the first on); texts come as bytes, which may be no UTF-8.
SELECT id, CAST(event_type AS BLOB), CAST(data AS BLOB), CAST(key AS BLOB), CAST(headers AS BLOB), "partition",
       CAST(created_at AS BLOB), rejected_at, CAST(reason AS BLOB)
FROM penstock_rejected
WHERE (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids))) AND (:event_type IS NULL OR event_type = :event_type)
  AND (:after IS NULL OR iif(:newest, id < :after, id > :after))
ORDER BY iif(:newest, -id, id) LIMIT :limit
