-- Have the files :paths (a JSON array) deleted.
UPDATE penstock_cold_file SET state = 'removed', changed_at = :at
WHERE path IN (SELECT value FROM json_each(:paths)) AND state <> 'removed'
