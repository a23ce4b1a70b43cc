-- The keys of a range alone, as `columns_sparse` tells them.
SELECT count(*), convert_to(string_agg(coalesce(key, chr(1)), chr(10)), 'UTF8')
FROM (SELECT key FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset") AS e
