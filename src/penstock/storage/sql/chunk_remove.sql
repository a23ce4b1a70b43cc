-- Delete a chunk.
DELETE FROM penstock_chunk WHERE upload_id = ? AND number = ?
