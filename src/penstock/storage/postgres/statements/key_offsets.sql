-- Select the offsets of the events of a range that have the key :key, in order.
SELECT "offset" FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop AND key = :key
ORDER BY "offset"
