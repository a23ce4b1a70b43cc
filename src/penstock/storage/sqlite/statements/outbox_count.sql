-- Count the rows that wait in the outbox, up to :limit, and find when the oldest of these was inserted, in microseconds since
-- 1970; NULL where a service has inserted no time.
SELECT count(*), CAST((julianday(min(created_at)) - 2440587.5) * 86400000000 AS INTEGER)
FROM (SELECT created_at FROM penstock_outbox ORDER BY id LIMIT :limit)
