-- Forget the first dropped partition, which holds nothing any more.
DELETE FROM penstock_partition
WHERE id = (SELECT min(id) FROM penstock_partition WHERE event_type_id IS NULL)
