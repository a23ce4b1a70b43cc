-- The columns of a range that are often empty, joined by LF; char(1) stands for NULL. NULL where all are. In order as
-- `lines` is.
SELECT count(*),
       CASE WHEN count(key) THEN CAST(group_concat(coalesce(key, char(1)), char(10)) AS BLOB) END,
       CASE WHEN count(kind) THEN CAST(group_concat(coalesce(kind, char(1)), char(10)) AS BLOB) END,
       CASE WHEN count(headers) THEN CAST(group_concat(coalesce(headers, char(1)), char(10)) AS BLOB) END
FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
