-- The first %(limit)s rejected rows, the newest first where %(newest)s, else the oldest, chosen like `rejected_find`.
SELECT id, event_type, data, key, headers, "partition",
       to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
       to_char(rejected_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), reason
FROM penstock_rejected
WHERE (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s::bigint[]))
  AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s)
ORDER BY CASE WHEN %(newest)s THEN -id ELSE id END LIMIT %(limit)s
