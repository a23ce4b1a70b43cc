-- Select a parked key of a partition.
SELECT id FROM penstock_parked
WHERE subscription = :subscription AND event_type = :event_type AND "partition" = :partition AND key = :key
