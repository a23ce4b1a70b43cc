-- A range of events of some kinds as one value (:kinds, in lower case): of all but these where :skip is true.
SELECT count(*), count(data),
       convert_to(:prefix::text || string_agg(data, :separator::text) || :suffix::text, 'UTF8')
FROM (SELECT CASE WHEN (lower(coalesce(kind, :default::text) COLLATE "C") = ANY(:kinds::text[])) <> :skip
                  THEN data END AS data
      FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset") AS e
