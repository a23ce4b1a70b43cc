-- A range of events joined by LF, how many have a key, a kind and headers, and when the first and the last came.
SELECT count(*), CAST(group_concat(data, char(10)) AS BLOB), count(key), count(kind), count(headers),
       (SELECT received_at FROM penstock_event WHERE partition_id = :partition_id AND "offset" = :start),
       (SELECT received_at FROM penstock_event WHERE partition_id = :partition_id AND "offset" = :stop - 1)
FROM (SELECT data, key, kind, headers FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset")
