-- The same for some kinds only (%(kinds)s, in lower case): all but these where %(skip)s is true.
SELECT count(*), count(data),
       convert_to(%(prefix)s::text || string_agg(data, %(separator)s::text) || %(suffix)s::text, 'UTF8')
FROM (SELECT CASE WHEN (lower(coalesce(kind, %(default)s::text) COLLATE "C") = ANY(%(kinds)s::text[])) <> %(skip)s
                  THEN data END AS data
      FROM penstock_event
      WHERE partition_id = %(partition_id)s AND "offset" >= %(start)s AND "offset" < %(stop)s
      ORDER BY "offset") AS e
