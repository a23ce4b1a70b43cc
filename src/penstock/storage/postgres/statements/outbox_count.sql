-- How many rows wait in the outbox, counted no further than to %(limit)s. None of them was seen by the snapshot (%(xmax)s,
-- %(running)s), so rows that were moved before it are not looked at again.
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM (
    SELECT 1 FROM (
        (SELECT 1 FROM penstock_outbox WHERE xid >= %(xmax)s::xid8 OFFSET 0)
        UNION ALL
        (SELECT 1 FROM penstock_outbox WHERE xid = ANY(%(running)s::xid8[]) AND xid < %(xmax)s::xid8 OFFSET 0)) AS fresh
    LIMIT %(limit)s) AS counted
