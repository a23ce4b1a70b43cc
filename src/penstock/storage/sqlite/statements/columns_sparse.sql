-- The columns of a range that are often empty, joined by LF; char(1) stands for NULL. What is not asked for is NULL.
SELECT CAST(group_concat(CASE WHEN :keys THEN coalesce(key, char(1)) END, char(10)) AS BLOB),
       CAST(group_concat(CASE WHEN :kinds THEN coalesce(kind, char(1)) END, char(10)) AS BLOB),
       CAST(group_concat(CASE WHEN :headers THEN coalesce(headers, char(1)) END, char(10)) AS BLOB)
FROM (SELECT key, kind, headers FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset")
