-- Delete the uploads :ids (a JSON array), whose chunks are deleted.
DELETE FROM penstock_upload WHERE id IN (SELECT value FROM json_each(:ids))
