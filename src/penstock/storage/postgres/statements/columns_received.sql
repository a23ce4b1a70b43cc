-- Select when the events of a range were received, once for neighbours that share a time (it never goes back), and
-- their number.
SELECT sum(rows)::bigint, convert_to(string_agg(ends::text, chr(10) ORDER BY received_at), 'UTF8'),
       convert_to(string_agg(received_at::text, chr(10) ORDER BY received_at), 'UTF8')
FROM (SELECT count(*) AS rows, sum(count(*)) OVER (ORDER BY received_at) AS ends, received_at FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      GROUP BY received_at) AS e
