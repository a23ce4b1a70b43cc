-- Record the file :path, which is going to be written.
INSERT INTO penstock_cold_file (path, partition_id, state, start, stop, changed_at)
VALUES (:path, :partition_id, 'writing', :start, :stop, :at)
