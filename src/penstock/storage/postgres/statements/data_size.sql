-- Select the size of the events of a range in bytes: of their data, as readers get it. No value out of line is read.
SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
