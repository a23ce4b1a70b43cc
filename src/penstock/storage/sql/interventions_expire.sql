-- Delete changes of positions that were made before :before, of the oldest :rows; ids grow with the times. Skip those that are
-- deleted with their group now.
DELETE FROM penstock_intervention
WHERE id IN (SELECT id FROM penstock_intervention
             WHERE at < :before AND id IN (SELECT id FROM penstock_intervention ORDER BY id LIMIT :rows)
             FOR UPDATE SKIP LOCKED)
