-- Delete rows that were rejected before :before, of the oldest :rows; ids grow with the times.
DELETE FROM penstock_rejected
WHERE id IN (SELECT id FROM penstock_rejected ORDER BY id LIMIT :rows)
  AND rejected_at < strftime('%Y-%m-%dT%H:%M:%fZ', :before / 1e6, 'unixepoch')
