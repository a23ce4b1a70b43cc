-- A range of events joined by LF, and how many have a key, a kind or headers.
SELECT count(*), convert_to(string_agg(data, chr(10)), 'UTF8'), count(coalesce(key, kind, headers))
FROM (SELECT data, key, kind, headers FROM penstock_event
      WHERE partition_id = %(partition_id)s AND "offset" >= %(start)s AND "offset" < %(stop)s
      ORDER BY "offset") AS e
