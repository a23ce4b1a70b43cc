-- When the events of a range came, told once for all that share a time: it never goes back, so they are neighbours;
-- and how many events there are.
SELECT sum(rows), CAST(group_concat(ends, char(10)) AS BLOB), CAST(group_concat(received_at, char(10)) AS BLOB)
FROM (SELECT count(*) AS rows, max(place) + 1 - :first AS ends, received_at FROM penstock_event
      WHERE place >= :first AND place < :past
      GROUP BY received_at ORDER BY received_at)
