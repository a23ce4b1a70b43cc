-- Select up to :limit files that end after :offset, of the partitions :ids (a JSON array) and in the state :state, by
-- partition and range; a state that is NULL stands for all.
SELECT path, partition_id, state, start, stop, events, data_bytes, received_from, received_to, digest, file_bytes,
       changed_at
FROM penstock_cold_file
WHERE partition_id IN (SELECT CAST(value AS bigint) FROM json_each(:ids))
  AND (CAST(:state AS TEXT) IS NULL OR state = :state)
  AND stop > :offset
ORDER BY partition_id, stop, start
LIMIT :limit
