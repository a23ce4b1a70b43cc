-- The batches of an epoch of a producer that hold any of the numbers from %(first)s up to %(stop)s.
SELECT number, "offset", digests
FROM penstock_produced
WHERE producer_id = %(producer_id)s AND epoch = %(epoch)s AND number < %(stop)s
  AND number >= coalesce((SELECT max(number) FROM penstock_produced
                          WHERE producer_id = %(producer_id)s AND epoch = %(epoch)s AND number <= %(first)s), 0)
  AND number + events > %(first)s
ORDER BY number
