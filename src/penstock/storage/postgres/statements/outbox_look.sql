-- Which event types have rows that the snapshot (:xmax, :running) could not see, and the snapshot of this look.
-- Their place in the index is where the last look ended: rows that were moved long ago and that a long transaction keeps
-- from being vacuumed are not looked at again. OFFSET 0 keeps the planner from merging what has to stay apart.
SET LOCAL enable_seqscan = off;
SELECT pg_snapshot_xmax(pg_current_snapshot())::text,
       ARRAY(SELECT xid::text FROM pg_snapshot_xip(pg_current_snapshot()) AS xid),
       ARRAY(SELECT DISTINCT event_type FROM (
                 (SELECT event_type FROM penstock_outbox WHERE xid >= :xmax::xid8 OFFSET 0)
                 UNION ALL
                 (SELECT event_type FROM penstock_outbox WHERE xid = ANY(:running::xid8[]) OFFSET 0)) AS fresh)
