-- Select the offset from which on events of the partition :partition_id have compaction keys, and where compaction has come to.
SELECT compacted_from, compacted_stop, compacted_events, compacted_deletion FROM penstock_partition WHERE id = :partition_id
