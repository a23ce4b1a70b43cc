-- The first offset of a range that does not fit into :bytes any more; nothing after it is looked at. A cast to BLOB gives
-- a text's length in bytes without counting its characters.
SELECT "offset"
FROM (SELECT "offset", sum(length(CAST(data AS BLOB)) + coalesce(length(CAST(key AS BLOB)), 0)
                           + coalesce(length(CAST(kind AS BLOB)), 0) + coalesce(length(CAST(headers AS BLOB)), 0))
                       OVER (ORDER BY "offset" ROWS UNBOUNDED PRECEDING) AS size
      FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop)
WHERE size > :bytes
LIMIT 1
