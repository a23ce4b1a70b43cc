-- How many events a range has and their size in bytes, and the events joined by :separator unless they have more than
-- :bytes_max. Looking at the rows twice costs less than asking for their size first, which would be another exchange.
SELECT range.rows, range.bytes,
       CASE WHEN range.bytes <= :bytes_max THEN
           (SELECT convert_to(string_agg(data, :separator::text), 'UTF8')
            FROM (SELECT data FROM penstock_event
                  WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
                  ORDER BY "offset") AS e)
       END
FROM (SELECT count(*) AS rows, coalesce(sum(octet_length(data)), 0)::bigint AS bytes
      FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop) AS range
