-- Select the offsets of the events of a range that have the key :key, in order.
SELECT place - (:partition_id << 40) FROM penstock_event
WHERE place >= (:partition_id << 40) + :start AND place < (:partition_id << 40) + :stop AND key = :key
ORDER BY place
