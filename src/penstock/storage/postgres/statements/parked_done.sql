-- Delete those of the parked keys :ids (a JSON array) that have no parked events.
DELETE FROM penstock_parked
WHERE id IN (SELECT value::bigint FROM json_array_elements_text(:ids::json) AS value)
  AND NOT EXISTS (SELECT FROM penstock_parked_event WHERE parked_id = penstock_parked.id)
