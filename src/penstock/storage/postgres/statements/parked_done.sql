-- Forget those of these keys (a JSON array) of which no event waits any longer.
DELETE FROM penstock_parked
WHERE id IN (SELECT value::bigint FROM json_array_elements_text(:ids::json) AS value)
  AND NOT EXISTS (SELECT FROM penstock_parked_event WHERE parked_id = penstock_parked.id)
