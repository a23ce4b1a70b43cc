-- A range of events, joined by :separator, their shapes, joined, and the keys of those that have one, joined by LF: one
-- scan, since a second one would read all data again. In order as `lines` is.
SELECT CAST(group_concat(data, :separator) AS BLOB), CAST(group_concat(shape, '') AS BLOB), CAST(group_concat(key, '
') AS BLOB)
FROM penstock_event
WHERE place >= :first AND place < :past
