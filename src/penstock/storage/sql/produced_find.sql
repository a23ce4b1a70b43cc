-- Select the batches of an epoch of a producer that hold any of the numbers from :first to before :stop.
SELECT number, "offset", digests
FROM penstock_produced
WHERE producer_id = :producer_id AND epoch = :epoch AND number < :stop
  AND number >= coalesce((SELECT max(number) FROM penstock_produced
                          WHERE producer_id = :producer_id AND epoch = :epoch AND number <= :first), 0)
  AND number + events > :first
ORDER BY number
