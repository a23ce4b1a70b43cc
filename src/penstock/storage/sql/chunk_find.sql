-- Select what is stored about a chunk.
SELECT events, digest, rejected FROM penstock_chunk WHERE upload_id = :upload_id AND number = :number
