-- Have the files :paths (a JSON array) deleted that are in the state :state.
UPDATE penstock_cold_file SET state = 'removed', changed_at = :at
WHERE path IN (SELECT value FROM json_each(:paths)) AND state = :state
