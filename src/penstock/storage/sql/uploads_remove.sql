-- Delete the uploads :ids (a JSON array), whose chunks are deleted.
DELETE FROM penstock_upload WHERE id IN (SELECT CAST(value AS bigint) FROM json_each(:ids))
