-- Note where the compaction of the partition :partition_id has come to, unless another hub has come further.
UPDATE penstock_partition
SET compacted_stop = :stop, compacted_events = :events, compacted_deletion = :deletion_at
WHERE id = :partition_id AND compacted_stop <= :stop
