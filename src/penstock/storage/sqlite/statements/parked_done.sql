-- Forget those of these keys (a JSON array) of which no event waits any longer.
DELETE FROM penstock_parked
WHERE id IN (SELECT value FROM json_each(:ids))
  AND NOT EXISTS (SELECT 1 FROM penstock_parked_event WHERE parked_id = penstock_parked.id)
