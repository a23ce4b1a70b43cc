-- Have keys (a JSON array) sent again.
UPDATE penstock_parked SET is_retried = 1 WHERE id IN (SELECT value FROM json_each(:ids))
