-- The columns of a range, in the order of their offsets; no row if together they have more than :bytes_max.
SELECT data, key, kind, headers, received_at FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
  AND (SELECT sum(octet_length(data) + coalesce(octet_length(key), 0) + coalesce(octet_length(kind), 0)
                  + coalesce(octet_length(headers), 0))
       FROM penstock_event
       WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop) <= :bytes_max
ORDER BY "offset"
