-- When the events of a range came, told once for all that share a time: it never goes back, so they are neighbours;
-- and how many events there are.
SELECT sum(rows), CAST(group_concat(ends, char(10)) AS BLOB), CAST(group_concat(received_at, char(10)) AS BLOB)
FROM (SELECT count(*) AS rows, max("offset") + 1 - :start AS ends, received_at FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      GROUP BY received_at ORDER BY received_at)
