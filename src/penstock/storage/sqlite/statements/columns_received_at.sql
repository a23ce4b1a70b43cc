-- When the events at some places (:places, a JSON array) came, in that order, and how many of them there are.
SELECT count(*), CAST(group_concat(received_at, char(10)) AS BLOB)
FROM json_each(:places)
CROSS JOIN penstock_event ON place = value
