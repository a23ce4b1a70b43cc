-- What a range of offsets holds, without reading the events themselves.
SELECT count(*), coalesce(sum(octet_length(data)), 0)::bigint, count(key), count(kind), count(headers),
       coalesce(min(received_at), 0), coalesce(max(received_at), 0)
FROM penstock_event
WHERE partition_id = %(partition_id)s AND "offset" >= %(start)s AND "offset" < %(stop)s
