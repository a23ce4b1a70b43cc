-- A range of events, joined by :separator, the size of each (32 bits, the highest first), the keys of those that have one,
-- joined by LF, how many have a key, how many a kind or headers, and when the first and the last came.
SELECT convert_to(string_agg(data, :separator::text), 'UTF8'), string_agg(int4send(octet_length(data)), ''),
       convert_to(string_agg(key, chr(10)), 'UTF8'), count(key), count(coalesce(kind, headers)),
       (SELECT received_at FROM penstock_event WHERE partition_id = :partition_id AND "offset" = :start),
       (SELECT received_at FROM penstock_event WHERE partition_id = :partition_id AND "offset" = :stop - 1)
FROM (SELECT data, key, kind, headers FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset") AS e
