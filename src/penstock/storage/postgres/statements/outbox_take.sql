-- Remove the first %(limit)s rows by id of the event type %(name)s that the snapshot (%(xmax)s, %(running)s) could not
-- see, and return them with the snapshot of this look. RETURNING keeps no order: the caller sorts. The ids are found once,
-- by their place in the index, whatever the planner believes of a table that was empty when it was last analysed.
SET LOCAL enable_seqscan = off;
WITH taken AS (
    DELETE FROM penstock_outbox
    WHERE id = ANY(ARRAY(
        SELECT id FROM (
            (SELECT id FROM penstock_outbox WHERE event_type = %(name)s AND xid >= %(xmax)s::xid8 OFFSET 0)
            UNION ALL
            (SELECT id FROM penstock_outbox WHERE event_type = %(name)s AND xid = ANY(%(running)s::xid8[]) OFFSET 0)
        ) AS fresh ORDER BY id LIMIT %(limit)s))
    RETURNING id, event_type, data, key, headers, "partition", created_at::text)
SELECT pg_snapshot_xmax(pg_current_snapshot())::text,
       ARRAY(SELECT xid::text FROM pg_snapshot_xip(pg_current_snapshot()) AS xid),
       taken.*
FROM (SELECT 1) AS once LEFT JOIN taken ON true
