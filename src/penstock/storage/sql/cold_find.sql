-- Select the first sealed file of the partition :partition_id that ends after :offset.
SELECT path, partition_id, state, start, stop, events, data_bytes, received_from, received_to, digest, file_bytes,
       changed_at
FROM penstock_cold_file
WHERE partition_id = :partition_id AND stop > :offset AND state = 'sealed'
ORDER BY stop
LIMIT 1
