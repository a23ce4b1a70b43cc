-- Remove up to :rows events of one dropped partition; the row lock keeps a second purger away.
WITH dropped AS (SELECT id FROM penstock_partition WHERE event_type_id IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED),
     gone AS (SELECT e.partition_id, e."offset" FROM penstock_event AS e JOIN dropped ON e.partition_id = dropped.id
              ORDER BY e."offset" LIMIT :rows)
DELETE FROM penstock_event AS e USING gone WHERE e.partition_id = gone.partition_id AND e."offset" = gone."offset"
