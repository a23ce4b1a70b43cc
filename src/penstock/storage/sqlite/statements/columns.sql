-- A range of events joined by LF.
SELECT count(*), CAST(group_concat(data, char(10)) AS BLOB)
FROM (SELECT data FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset")
