-- How many rows wait in the outbox, counted no further than to :limit. None of them was seen by the snapshot (:xmax,
-- :running), so rows that were moved before it are not looked at again.
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM (
    SELECT 1 FROM (
        (SELECT 1 FROM penstock_outbox WHERE xid >= :xmax::xid8 OFFSET 0)
        UNION ALL
        (SELECT 1 FROM penstock_outbox WHERE xid = ANY(:running::xid8[]) AND xid < :xmax::xid8 OFFSET 0)) AS fresh
    LIMIT :limit) AS counted
