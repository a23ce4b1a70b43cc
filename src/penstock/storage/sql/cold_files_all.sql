-- Select up to :limit files in the state :state, by partition and range; a state that is NULL stands for all.
SELECT path, partition_id, state, start, stop, events, data_bytes, received_from, received_to, digest, file_bytes,
       changed_at
FROM penstock_cold_file
WHERE CAST(:state AS TEXT) IS NULL OR state = :state
ORDER BY partition_id, stop, start
LIMIT :limit
