-- The keys of a range alone, as `columns_sparse` tells them.
SELECT count(*), CAST(group_concat(ifnull(key, ''), '
') AS BLOB)
FROM penstock_event
WHERE place >= :first AND place < :past
