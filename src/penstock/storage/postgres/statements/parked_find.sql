-- The key that waits in a partition, if it does.
SELECT id FROM penstock_parked
WHERE subscription = %(subscription)s AND event_type = %(event_type)s AND "partition" = %(partition)s AND md5(key) = md5(%(key)s)
  AND key = %(key)s
