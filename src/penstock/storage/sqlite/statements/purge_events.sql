-- Remove up to :rows events of one dropped partition.
DELETE FROM penstock_event
WHERE place IN (
    SELECT place FROM (SELECT min(id) AS id FROM penstock_partition WHERE event_type_id IS NULL) AS dropped
    JOIN penstock_event ON place >= dropped.id << 40 AND place < dropped.id + 1 << 40
    ORDER BY place LIMIT :rows)
