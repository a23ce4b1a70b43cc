-- Delete rows that were rejected before :before, of the oldest :rows; ids grow with the times. Skip those that somebody puts
-- back now.
DELETE FROM penstock_rejected
WHERE id IN (SELECT id FROM penstock_rejected
             WHERE rejected_at < to_timestamp(:before / 1e6)
               AND id IN (SELECT id FROM penstock_rejected ORDER BY id LIMIT :rows)
             FOR UPDATE SKIP LOCKED)
