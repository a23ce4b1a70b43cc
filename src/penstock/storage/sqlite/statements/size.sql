-- How many bytes a range has. A cast to BLOB gives a text's length in bytes without counting its characters.
SELECT coalesce(sum(length(CAST(data AS BLOB)) + coalesce(length(CAST(headers AS BLOB)), 0)), 0)
FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
