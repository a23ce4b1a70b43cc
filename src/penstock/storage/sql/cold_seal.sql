-- Record what the file :path has, unless it was given up meanwhile.
UPDATE penstock_cold_file
SET state = 'sealed', events = :events, data_bytes = :data_bytes, file_bytes = :file_bytes,
    received_from = :received_from, received_to = :received_to, digest = :digest, changed_at = :at
WHERE path = :path AND state = 'writing'
