-- Select the keys of a range, joined as in `columns_sparse`.
SELECT count(*), CAST(group_concat(ifnull(key, ''), '
') AS BLOB)
FROM penstock_event
WHERE place >= :first AND place < :past
