-- A range of events as one value.
SELECT count(*), count(*),
       convert_to(:prefix::text || string_agg(data, :separator::text) || :suffix::text, 'UTF8')
FROM (SELECT data FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset") AS e
