-- The events of a range, in the order of their offsets; none if together they have more than :bytes_max. Joining them
-- here would take longer than to send them one by one.
SELECT data FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
  AND (SELECT sum(octet_length(data)) FROM penstock_event
       WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop) <= :bytes_max
ORDER BY "offset"
