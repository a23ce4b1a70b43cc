-- Delete those of the parked keys :ids (a JSON array) that have no parked events.
DELETE FROM penstock_parked
WHERE id IN (SELECT CAST(value AS bigint) FROM json_each(:ids))
  AND NOT EXISTS (SELECT 1 FROM penstock_parked_event WHERE parked_id = penstock_parked.id)
