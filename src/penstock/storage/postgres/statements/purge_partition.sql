-- Delete the first dropped partition that has neither events, files of the cold tier nor producers.
DELETE FROM penstock_partition
WHERE id = (SELECT p.id FROM penstock_partition AS p
            WHERE p.event_type_id IS NULL AND NOT EXISTS (SELECT 1 FROM penstock_event AS e WHERE e.partition_id = p.id)
              AND NOT EXISTS (SELECT 1 FROM penstock_cold_file AS f WHERE f.partition_id = p.id)
              AND NOT EXISTS (SELECT 1 FROM penstock_producer AS r WHERE r.partition_id = p.id)
            ORDER BY p.id LIMIT 1 FOR UPDATE SKIP LOCKED)
