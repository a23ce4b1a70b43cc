-- Select the subscriptions of a search, newest first.
SELECT id, definition, created_at, updated_at, revision, resetting_until FROM penstock_subscription AS s
WHERE (:owner IS NULL OR s.owning_application = :owner)
  AND NOT EXISTS (
      SELECT 1 FROM json_each(:event_types) AS wanted
      WHERE NOT EXISTS (SELECT 1 FROM penstock_subscription_source AS r
                        JOIN penstock_event_type AS t ON t.id = r.event_type_id
                        WHERE r.subscription = s.id AND t.name = wanted.value))
  AND (:data_type IS NULL
       OR EXISTS (SELECT 1 FROM json_each(s.definition, '$.authorization.readers') AS reader
             WHERE json_extract(reader.value, '$.data_type') = :data_type AND json_extract(reader.value, '$.value') = :value))
ORDER BY s.created_at DESC, s.id DESC
LIMIT :limit OFFSET :offset
