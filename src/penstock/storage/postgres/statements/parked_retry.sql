-- Have keys (a JSON array) sent again.
UPDATE penstock_parked SET is_retried = true WHERE id IN (SELECT value::bigint FROM json_array_elements_text(%(ids)s::json) AS value)
