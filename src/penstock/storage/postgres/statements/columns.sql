-- A range of events by column, each joined by LF; chr(1) stands for NULL. What is not asked for comes back NULL.
SELECT convert_to(string_agg(data, chr(10)), 'UTF8'),
       convert_to(string_agg(CASE WHEN %(keys)s THEN coalesce(key, chr(1)) END, chr(10)), 'UTF8'),
       convert_to(string_agg(CASE WHEN %(kinds)s THEN coalesce(kind, chr(1)) END, chr(10)), 'UTF8'),
       convert_to(string_agg(CASE WHEN %(headers)s THEN coalesce(headers, chr(1)) END, chr(10)), 'UTF8'),
       convert_to(string_agg(CASE WHEN %(received)s THEN received_at::text END, chr(10)), 'UTF8')
FROM (SELECT data, key, kind, headers, received_at FROM penstock_event
      WHERE partition_id = %(partition_id)s AND "offset" >= %(start)s AND "offset" < %(stop)s
      ORDER BY "offset") AS e
