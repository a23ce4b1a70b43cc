-- Forget keys (a JSON array), and which of their events wait.
DELETE FROM penstock_parked WHERE id IN (SELECT value::bigint FROM json_array_elements_text(%(ids)s::json) AS value)
