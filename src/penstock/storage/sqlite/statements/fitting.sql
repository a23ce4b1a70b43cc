-- How many events of a range fit into :bytes; nothing after the first that does not is looked at. A cast to BLOB gives
-- a text's length in bytes without counting its characters.
SELECT place - :first
FROM (SELECT place, sum(length(CAST(data AS BLOB)) + coalesce(length(CAST(key AS BLOB)), 0)
                           + coalesce(length(CAST(kind AS BLOB)), 0) + coalesce(length(CAST(headers AS BLOB)), 0))
                       OVER (ORDER BY place ROWS UNBOUNDED PRECEDING) AS size
      FROM penstock_event
      WHERE place >= :first AND place < :past)
WHERE size > :bytes
LIMIT 1
