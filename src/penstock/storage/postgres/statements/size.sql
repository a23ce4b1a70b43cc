-- Select the size of a range in bytes, without reading values stored out of line.
SELECT coalesce(sum(octet_length(data) + coalesce(octet_length(key), 0) + coalesce(octet_length(kind), 0)
                    + coalesce(octet_length(headers), 0)), 0)::bigint
FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
