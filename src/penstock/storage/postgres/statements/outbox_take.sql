-- Remove the first :rows rows by id of the event type :name that the snapshot (:xmax, :running) could not
-- see, up to :bytes, and return them with the snapshot of this look and the id of the last that waited. RETURNING keeps
-- no order: the caller sorts. The ids are found once, by their place in the index, whatever the planner believes of a
-- table that was empty when it was last analysed.
SET LOCAL enable_seqscan = off;
WITH fresh AS MATERIALIZED (
    (SELECT id, octet_length(data) + coalesce(octet_length(key), 0) + coalesce(octet_length(headers), 0) AS size
     FROM penstock_outbox WHERE event_type = :name AND xid >= :xmax::xid8 OFFSET 0)
    UNION ALL
    (SELECT id, octet_length(data) + coalesce(octet_length(key), 0) + coalesce(octet_length(headers), 0)
     FROM penstock_outbox WHERE event_type = :name AND xid = ANY(:running::xid8[]) OFFSET 0)),
taken AS (
    DELETE FROM penstock_outbox
    WHERE id = ANY(ARRAY(
        SELECT id FROM (SELECT id, sum(size) OVER (ORDER BY id) - size AS before
                        FROM (SELECT id, size FROM fresh ORDER BY id LIMIT :rows) AS first) AS measured
        WHERE before < :bytes))
    RETURNING id, event_type, data, key, headers, "partition", created_at::text)
SELECT pg_snapshot_xmax(pg_current_snapshot())::text,
       ARRAY(SELECT xid::text FROM pg_snapshot_xip(pg_current_snapshot()) AS xid),
       (SELECT coalesce(max(id), 0) FROM fresh),
       taken.*
FROM (SELECT 1) AS once LEFT JOIN taken ON true
