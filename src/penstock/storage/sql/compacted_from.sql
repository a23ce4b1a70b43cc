-- Select the offset from which on events of the partition :partition_id have compaction keys.
SELECT compacted_from FROM penstock_partition WHERE id = :partition_id
