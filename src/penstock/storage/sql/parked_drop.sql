-- Delete a parked key with its events.
DELETE FROM penstock_parked WHERE id = :id
