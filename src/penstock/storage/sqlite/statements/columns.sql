-- A range of events joined by LF, and how many have a key, a kind or headers. In order as `lines` is.
SELECT count(*), CAST(group_concat(data, '
') AS BLOB), count(coalesce(key, kind, headers))
FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
