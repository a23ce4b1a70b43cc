-- The columns of a range that are often empty, joined by LF; chr(1) stands for NULL. NULL where all are.
SELECT count(*),
       CASE WHEN count(key) > 0 THEN convert_to(string_agg(coalesce(key, chr(1)), chr(10)), 'UTF8') END,
       CASE WHEN count(kind) > 0 THEN convert_to(string_agg(coalesce(kind, chr(1)), chr(10)), 'UTF8') END,
       CASE WHEN count(headers) > 0 THEN convert_to(string_agg(coalesce(headers, chr(1)), chr(10)), 'UTF8') END
FROM (SELECT key, kind, headers FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset") AS e
