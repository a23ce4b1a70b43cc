-- A range of events joined by LF.
SELECT count(*), convert_to(string_agg(data, chr(10)), 'UTF8')
FROM (SELECT data FROM penstock_event
      WHERE partition_id = %(partition_id)s AND "offset" >= %(start)s AND "offset" < %(stop)s
      ORDER BY "offset") AS e
