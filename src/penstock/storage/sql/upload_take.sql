-- Give an upload to its batch.
UPDATE penstock_upload SET batch_id = ?, place = ?, updated_at = ? WHERE id = ?
