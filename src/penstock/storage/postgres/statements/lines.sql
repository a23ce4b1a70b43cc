-- A range of events as one value.
SELECT count(*), count(*),
       convert_to(%(prefix)s::text || string_agg(data, %(separator)s::text) || %(suffix)s::text, 'UTF8')
FROM (SELECT data FROM penstock_event
      WHERE partition_id = %(partition_id)s AND "offset" >= %(start)s AND "offset" < %(stop)s
      ORDER BY "offset") AS e
