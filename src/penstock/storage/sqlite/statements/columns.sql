-- A range of events and their shapes, each joined. In order as `lines` is.
SELECT CAST(group_concat(data, '') AS BLOB), CAST(group_concat(shape, '') AS BLOB)
FROM penstock_event
WHERE place >= :first AND place < :past
