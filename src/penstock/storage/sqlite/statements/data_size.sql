-- Select the size of the events of a range in bytes: of their data, as readers get it.
SELECT coalesce(sum(length(CAST(data AS BLOB))), 0) FROM penstock_event
WHERE place >= (:partition_id << 40) + :start AND place < (:partition_id << 40) + :stop
