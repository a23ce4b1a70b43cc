-- Delete the first dropped partition that has neither events nor producers.
DELETE FROM penstock_partition
WHERE id = (SELECT min(id) FROM penstock_partition WHERE event_type_id IS NULL)
  AND NOT EXISTS (SELECT 1 FROM penstock_producer AS r WHERE r.partition_id = penstock_partition.id)
