-- Make an upload part of a batch.
UPDATE penstock_upload SET batch_id = ?, place = ?, updated_at = ? WHERE id = ?
