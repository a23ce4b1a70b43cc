-- Delete some chunks of the uploads :ids (a JSON array).
DELETE FROM penstock_chunk
WHERE (upload_id, number) IN (SELECT upload_id, number FROM penstock_chunk
                              WHERE upload_id IN (SELECT CAST(value AS bigint) FROM json_each(:ids))
                              LIMIT :limit)
