-- Note that keys (a JSON array) were sent again in vain.
UPDATE penstock_parked SET is_retried = 0, attempts = attempts + 1 WHERE id IN (SELECT value FROM json_each(:ids))
