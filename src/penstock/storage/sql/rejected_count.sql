-- How many rows were rejected, counted no further than to :limit.
SELECT count(*) FROM (SELECT 1 FROM penstock_rejected LIMIT :limit) AS counted
