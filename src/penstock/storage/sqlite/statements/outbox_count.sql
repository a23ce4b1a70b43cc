-- How many rows wait in the outbox, counted no further than to :limit.
SELECT count(*) FROM (SELECT 1 FROM penstock_outbox LIMIT :limit)
