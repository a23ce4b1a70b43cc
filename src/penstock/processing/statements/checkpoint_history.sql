-- What was done to a processor, the newest first.
SELECT tranche, at, came_from, went_to, reason FROM {table}_history
WHERE processor = :processor ORDER BY id DESC LIMIT :limit
