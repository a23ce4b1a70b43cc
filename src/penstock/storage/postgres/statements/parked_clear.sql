-- Forget the events of a partition that wait from an offset on.
DELETE FROM penstock_parked_event
WHERE "offset" >= %(start)s
  AND parked_id IN (SELECT id FROM penstock_parked
                    WHERE subscription = %(subscription)s AND event_type = %(event_type)s AND "partition" = %(partition)s)
