-- The columns of a range that are often empty, joined by LF; chr(1) stands for NULL. What is not asked for is NULL.
SELECT convert_to(string_agg(CASE WHEN %(keys)s THEN coalesce(key, chr(1)) END, chr(10)), 'UTF8'),
       convert_to(string_agg(CASE WHEN %(kinds)s THEN coalesce(kind, chr(1)) END, chr(10)), 'UTF8'),
       convert_to(string_agg(CASE WHEN %(headers)s THEN coalesce(headers, chr(1)) END, chr(10)), 'UTF8')
FROM (SELECT key, kind, headers FROM penstock_event
      WHERE partition_id = %(partition_id)s AND "offset" >= %(start)s AND "offset" < %(stop)s
      ORDER BY "offset") AS e
