-- Select the first unpublished chunks of a batch, without their events.
SELECT c.upload_id, c.number, c.events
FROM penstock_upload AS u
JOIN penstock_chunk AS c ON c.upload_id = u.id
WHERE u.batch_id = :batch_id
ORDER BY u.place, c.number LIMIT :limit
