-- Count the rejected rows, up to :limit.
SELECT count(*) FROM (SELECT 1 FROM penstock_rejected LIMIT :limit) AS counted
