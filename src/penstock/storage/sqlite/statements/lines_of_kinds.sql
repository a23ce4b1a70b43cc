-- The same for some kinds only (:kinds, a JSON array in lower case): all but these where :skip is 1.
SELECT count(*), count(data), CAST(:prefix || group_concat(data, :separator) || :suffix AS BLOB)
FROM (SELECT CASE WHEN (lower(coalesce(kind, :default)) IN (SELECT value FROM json_each(:kinds))) <> :skip
                  THEN data END AS data
      FROM penstock_event
      WHERE place >= :first AND place < :past
      ORDER BY place)
