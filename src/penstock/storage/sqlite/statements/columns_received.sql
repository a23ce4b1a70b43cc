-- Select when the events of a range were received, once for neighbours that share a time (it never goes back), and
-- their number.
SELECT sum(rows), CAST(group_concat(ends, char(10)) AS BLOB), CAST(group_concat(received_at, char(10)) AS BLOB)
FROM (SELECT count(*) AS rows, sum(count(*)) OVER (ORDER BY received_at) AS ends, received_at FROM penstock_event
      WHERE place >= :first AND place < :past
      GROUP BY received_at ORDER BY received_at)
