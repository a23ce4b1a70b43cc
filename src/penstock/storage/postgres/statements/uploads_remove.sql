-- Delete the uploads :ids (a JSON array), whose chunks are deleted.
DELETE FROM penstock_upload WHERE id IN (SELECT value::bigint FROM json_array_elements_text(:ids::json) AS value)
