-- Remove the first %(limit)s rows by id of the event type %(name)s that the snapshot (%(xmax)s, %(running)s) could not
-- see, and return them with the snapshot of this look. RETURNING keeps no order: the caller sorts.
WITH taken AS (
    DELETE FROM penstock_outbox
    WHERE id IN (SELECT id FROM penstock_outbox
                 WHERE event_type = %(name)s AND (xid >= %(xmax)s::xid8 OR xid = ANY(%(running)s::xid8[]))
                 ORDER BY id LIMIT %(limit)s)
    RETURNING id, event_type, data, key, headers, "partition", created_at::text)
SELECT pg_snapshot_xmax(pg_current_snapshot())::text,
       ARRAY(SELECT xid::text FROM pg_snapshot_xip(pg_current_snapshot()) AS xid),
       taken.*
FROM (SELECT 1) AS once LEFT JOIN taken ON true
