-- A range of events, joined by :separator, and their shapes, joined. In order as `lines` is.
SELECT CAST(group_concat(data, :separator) AS BLOB), CAST(group_concat(shape, '') AS BLOB)
FROM penstock_event
WHERE place >= :first AND place < :past
