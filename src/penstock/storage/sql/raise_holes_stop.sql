-- Note that the partition :partition_id has a hole that ends at :stop.
UPDATE penstock_partition SET holes_stop = :stop WHERE id = :partition_id AND holes_stop < :stop
