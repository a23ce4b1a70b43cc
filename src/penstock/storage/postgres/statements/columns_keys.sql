-- Select the keys of a range, joined as in `columns_sparse`.
SELECT count(*), convert_to(string_agg(coalesce(key, chr(1)), chr(10)), 'UTF8')
FROM (SELECT key FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset") AS e
