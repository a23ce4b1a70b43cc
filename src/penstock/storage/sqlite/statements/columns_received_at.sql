-- When the events at some offsets (:offsets, a JSON array) came, in that order, and how many of them there are.
SELECT count(*), CAST(group_concat(received_at, char(10)) AS BLOB)
FROM json_each(:offsets)
CROSS JOIN penstock_event ON partition_id = :partition_id AND "offset" = value
