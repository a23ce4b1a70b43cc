-- Select those of the files :paths (a JSON array) that the manifest has.
SELECT path FROM penstock_cold_file WHERE path IN (SELECT value FROM json_each(:paths))
