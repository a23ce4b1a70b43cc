-- Forget the batches of a producer group that are published, and, where %(unfinished)s, those that tasks publish directly.
DELETE FROM penstock_batch
WHERE event_type_id = %(event_type_id)s AND "group" = %(group)s AND (done = chunks OR (%(unfinished)s AND epoch IS NOT NULL))
