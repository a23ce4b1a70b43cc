-- A range of events joined by LF, how many have a key, a kind and headers, and when the first and the last came.
SELECT count(*), convert_to(string_agg(data, chr(10)), 'UTF8'), count(key), count(kind), count(headers),
       min(received_at), max(received_at)
FROM (SELECT data, key, kind, headers, received_at FROM penstock_event
      WHERE partition_id = %(partition_id)s AND "offset" >= %(start)s AND "offset" < %(stop)s
      ORDER BY "offset") AS e
