-- Forget the files :paths (a JSON array), which were deleted.
DELETE FROM penstock_cold_file WHERE path IN (SELECT value FROM json_each(:paths)) AND state = 'removed'
