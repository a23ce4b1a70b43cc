-- Count the rows that wait in the outbox, up to :limit, and find when the oldest of these was inserted, in microseconds since
-- 1970. None of them was seen by the snapshot (:xmax, :running), so rows that were moved before it are not looked at again.
SET LOCAL enable_seqscan = off;
SELECT count(*), (extract(epoch FROM min(created_at)) * 1000000)::bigint FROM (
    SELECT created_at FROM (
        (SELECT created_at FROM penstock_outbox WHERE xid >= :xmax::xid8 OFFSET 0)
        UNION ALL
        (SELECT created_at FROM penstock_outbox WHERE xid = ANY(:running::xid8[]) AND xid < :xmax::xid8 OFFSET 0)) AS fresh
    LIMIT :limit) AS counted
