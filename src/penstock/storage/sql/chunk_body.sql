-- Select the events of a chunk.
SELECT body, rejected FROM penstock_chunk WHERE upload_id = :upload_id AND number = :number
