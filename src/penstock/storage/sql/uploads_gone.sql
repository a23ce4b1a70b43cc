-- Select some dropped uploads.
SELECT id FROM penstock_upload WHERE event_type_id IS NULL AND batch_id IS NULL ORDER BY id LIMIT :limit
