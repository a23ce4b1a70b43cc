-- The first :limit rejected rows, the newest first where :newest, else the oldest, chosen like `rejected_find`, and behind
-- the row :after (NULL: from the first on).
SELECT id, event_type, data, key, headers, "partition",
       to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
       to_char(rejected_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), reason
FROM penstock_rejected
WHERE (CAST(:ids AS text) IS NULL OR id IN (SELECT CAST(value AS bigint) FROM json_each(:ids)))
  AND (CAST(:event_type AS text) IS NULL OR event_type = :event_type)
  AND (:after::bigint IS NULL OR CASE WHEN :newest THEN id < :after ELSE id > :after END)
ORDER BY CASE WHEN :newest THEN -id ELSE id END LIMIT :limit
