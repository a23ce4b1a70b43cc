-- Drop some uploads that are part of no batch and were not touched since :before.
UPDATE penstock_upload SET event_type_id = NULL
WHERE id IN (SELECT id FROM penstock_upload
             WHERE event_type_id IS NOT NULL AND batch_id IS NULL AND updated_at < :before LIMIT :limit
             FOR UPDATE SKIP LOCKED)
