-- Forget the events of a partition that wait from an offset on.
DELETE FROM penstock_parked_event
WHERE "offset" >= :start
  AND parked_id IN (SELECT id FROM penstock_parked
                    WHERE subscription = :subscription AND event_type = :event_type AND "partition" = :partition)
