-- Subscriptions that are looked for, the newest first.
SELECT id, definition, created_at, updated_at, revision, resetting_until FROM penstock_subscription AS s
WHERE (%(owner)s::text IS NULL OR s.owning_application = %(owner)s)
  AND NOT EXISTS (
      SELECT FROM json_array_elements_text(%(event_types)s::json) AS wanted (value)
      WHERE NOT EXISTS (SELECT FROM penstock_subscription_source AS r
                        JOIN penstock_event_type AS t ON t.id = r.event_type_id
                        WHERE r.subscription = s.id AND t.name = wanted.value))
  AND (%(data_type)s::text IS NULL
       OR EXISTS (SELECT FROM json_array_elements(s.definition::json -> 'authorization' -> 'readers') AS reader
             WHERE reader ->> 'data_type' = %(data_type)s AND reader ->> 'value' = %(value)s))
ORDER BY s.created_at DESC, s.id DESC
LIMIT %(limit)s OFFSET %(offset)s
