-- Select the chunks of the uploads :ids (a JSON array), in their order, without their events.
SELECT upload_id, number, events, digest FROM penstock_chunk
WHERE upload_id IN (SELECT CAST(value AS bigint) FROM json_each(:ids))
ORDER BY upload_id, number
