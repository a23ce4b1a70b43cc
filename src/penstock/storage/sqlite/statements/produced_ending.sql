-- Where the numbers of an epoch of a producer have come to, by its last batch.
SELECT number + events, "offset" + events - 1
FROM penstock_produced
WHERE producer_id = :producer_id AND epoch = :epoch
ORDER BY number DESC
LIMIT 1
