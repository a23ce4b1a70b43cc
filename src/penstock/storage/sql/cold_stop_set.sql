-- Set the offset below which the events of the partition :partition_id are in files.
UPDATE penstock_partition SET cold_stop = :stop WHERE id = :partition_id
