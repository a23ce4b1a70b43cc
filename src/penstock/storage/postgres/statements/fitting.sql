-- The first offset of a range that does not fit into :bytes any more; nothing after it is looked at.
SELECT "offset"
FROM (SELECT "offset", sum(octet_length(data) + coalesce(octet_length(key), 0) + coalesce(octet_length(kind), 0)
                           + coalesce(octet_length(headers), 0)) OVER (ORDER BY "offset") AS size
      FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop) AS e
WHERE size > :bytes
LIMIT 1
