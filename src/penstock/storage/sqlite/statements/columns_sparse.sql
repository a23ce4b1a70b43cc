-- The columns of a range that are often empty, joined by LF, NULL where all are; in order as `lines` is. The character in
-- the other quotes is U+0001, which stands for NULL: as a parameter, or made by a function, it would cost as much again.
SELECT count(*),
       CASE WHEN count(key) THEN CAST(group_concat(ifnull(key, ''), '
') AS BLOB) END,
       CASE WHEN count(kind) THEN CAST(group_concat(ifnull(kind, ''), '
') AS BLOB) END,
       CASE WHEN count(headers) THEN CAST(group_concat(ifnull(headers, ''), '
') AS BLOB) END
FROM penstock_event
WHERE place >= :first AND place < :past
