-- Forget keys (a JSON array), and which of their events wait.
DELETE FROM penstock_parked WHERE id IN (SELECT value FROM json_each(:ids))
