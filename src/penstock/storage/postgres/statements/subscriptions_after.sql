-- Select the subscriptions of a search, in the order of their ids.
SELECT id, definition, created_at, updated_at, revision, resetting_until FROM penstock_subscription AS s
WHERE (:owner::text IS NULL OR s.owning_application = :owner)
  AND (json_array_length(:event_types::json) = 0
       OR s.id IN (SELECT r.subscription FROM penstock_subscription_source AS r
                   JOIN penstock_event_type AS t ON t.id = r.event_type_id
                   WHERE t.name IN (SELECT value FROM json_array_elements_text(:event_types::json) AS value)
                   GROUP BY r.subscription
                   HAVING count(*) = (SELECT count(DISTINCT value)
                                      FROM json_array_elements_text(:event_types::json) AS value)))
  AND (:data_type::text IS NULL
       OR EXISTS (SELECT FROM json_array_elements(s.definition::json -> 'authorization' -> 'readers') AS reader
             WHERE reader ->> 'data_type' = :data_type AND reader ->> 'value' = :value))
  AND s.id > :after
ORDER BY s.id
LIMIT :limit
