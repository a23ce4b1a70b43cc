-- The uploads %(names)s (a JSON array) of a batch that is not begun yet.
SELECT name, id FROM penstock_upload
WHERE name IN (SELECT value FROM json_array_elements_text(%(names)s::json) AS value)
  AND event_type_id = %(event_type_id)s AND "group" = %(group)s AND number = %(number)s
  AND query = %(query)s AND batch_id IS NULL
ORDER BY id FOR UPDATE
