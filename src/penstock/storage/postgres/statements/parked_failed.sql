-- Note that keys (a JSON array) were sent again in vain.
UPDATE penstock_parked SET is_retried = false, attempts = attempts + 1 WHERE id IN (SELECT value::bigint FROM json_array_elements_text(%(ids)s::json) AS value)
