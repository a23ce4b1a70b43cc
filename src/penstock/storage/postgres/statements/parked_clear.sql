-- Forget the keys of a partition, and which of their events wait.
DELETE FROM penstock_parked
WHERE subscription = %(subscription)s AND event_type = %(event_type)s AND "partition" = %(partition)s
