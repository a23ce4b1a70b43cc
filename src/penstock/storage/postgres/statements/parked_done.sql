-- Forget the keys of which no event waits any longer.
DELETE FROM penstock_parked
WHERE NOT EXISTS (SELECT FROM penstock_parked_event WHERE parked_id = penstock_parked.id)
