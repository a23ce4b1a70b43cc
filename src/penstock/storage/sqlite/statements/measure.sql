-- What a range of offsets holds. A cast to BLOB gives a text's length in bytes without counting its characters.
SELECT count(*), coalesce(sum(length(CAST(data AS BLOB))), 0), count(key), count(kind), count(headers),
       coalesce(min(received_at), 0), coalesce(max(received_at), 0)
FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
