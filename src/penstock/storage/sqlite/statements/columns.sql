-- A range of events by column, each joined by LF; char(1) stands for NULL. What is not asked for comes back NULL.
SELECT CAST(group_concat(data, char(10)) AS BLOB),
       CAST(group_concat(CASE WHEN :keys THEN coalesce(key, char(1)) END, char(10)) AS BLOB),
       CAST(group_concat(CASE WHEN :kinds THEN coalesce(kind, char(1)) END, char(10)) AS BLOB),
       CAST(group_concat(CASE WHEN :headers THEN coalesce(headers, char(1)) END, char(10)) AS BLOB),
       CAST(group_concat(CASE WHEN :received THEN received_at END, char(10)) AS BLOB)
FROM (SELECT data, key, kind, headers, received_at FROM penstock_event
      WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
      ORDER BY "offset")
