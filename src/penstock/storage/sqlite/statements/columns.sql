-- A range of events joined by LF, how many have a key, a kind or headers, and when the first and the last came. In order
-- as `lines` is.
SELECT count(*), CAST(group_concat(data, '
') AS BLOB), count(coalesce(key, kind, headers)),
       (SELECT received_at FROM penstock_event WHERE partition_id = :partition_id AND "offset" = :start),
       (SELECT received_at FROM penstock_event WHERE partition_id = :partition_id AND "offset" = :stop - 1)
FROM penstock_event
WHERE partition_id = :partition_id AND "offset" >= :start AND "offset" < :stop
