-- Give an upload to its batch.
UPDATE penstock_upload SET batch_id = %s, place = %s, updated_at = %s WHERE id = %s
