-- Remove up to :rows events of one dropped partition.
DELETE FROM penstock_event
WHERE (partition_id, "offset") IN (
    SELECT partition_id, "offset" FROM penstock_event
    WHERE partition_id = (SELECT min(id) FROM penstock_partition WHERE event_type_id IS NULL)
    ORDER BY "offset" LIMIT :rows)
