-- A range of events as one value: Python lets other threads go first at every row, so there is one row.
SELECT count(*), count(*), CAST(:prefix || group_concat(data, :separator) || :suffix AS BLOB)
FROM (SELECT data FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset")
