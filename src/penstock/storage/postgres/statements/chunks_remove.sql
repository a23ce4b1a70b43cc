-- Forget some chunks of the uploads %(ids)s (a JSON array).
DELETE FROM penstock_chunk
WHERE (upload_id, number) IN (SELECT upload_id, number FROM penstock_chunk
                              WHERE upload_id IN (SELECT value::bigint FROM json_array_elements_text(%(ids)s::json) AS value)
                              LIMIT %(limit)s)
