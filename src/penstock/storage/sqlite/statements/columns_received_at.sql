-- Select when the events at the places :places (a JSON array) were received, in that order, and their number.
SELECT count(*), CAST(group_concat(received_at, char(10)) AS BLOB)
FROM json_each(:places)
CROSS JOIN penstock_event ON place = value
