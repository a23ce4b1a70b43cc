-- Looks at the outbox, unless the snapshot seen is NULL, and then reads heads, as two statements would do one after the
-- other: each statement of a volatile function has its own snapshot. A function keeps its plans: see the migration
-- `begin_append`. Rows: the look, and the head of one partition, whose columns are NULL if none of the partitions is there.
CREATE FUNCTION penstock_look(seen_xmax text, seen_running text[], wanted_ids integer[])
RETURNS TABLE (xmax text, running text[], waiting text[], id integer, revision bigint, floor bigint, next_offset bigint,
               received_at bigint, holes_stop bigint, removals bigint, cold_stop bigint, timeline text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now_xmax text;
    now_running text[];
    now_waiting text[];
BEGIN
    IF seen_xmax IS NOT NULL THEN
        SELECT pg_snapshot_xmax(pg_current_snapshot())::text,
               ARRAY(SELECT xid::text FROM pg_snapshot_xip(pg_current_snapshot()) AS xid),
               ARRAY(SELECT DISTINCT event_type FROM (
                         (SELECT event_type FROM penstock_outbox WHERE xid >= seen_xmax::xid8 OFFSET 0)
                         UNION ALL
                         (SELECT event_type FROM penstock_outbox WHERE xid = ANY(seen_running::xid8[]) OFFSET 0)) AS fresh)
        INTO now_xmax, now_running, now_waiting;
    END IF;
    RETURN QUERY
    SELECT now_xmax, now_running, now_waiting, h.*
    FROM (VALUES (0)) AS one LEFT JOIN (
        SELECT p.id, t.revision::bigint, p.floor, greatest(p.floor, p.holes_stop, coalesce(e."offset" + 1, 0)),
               greatest(p.received_at, coalesce(e.received_at, 0)), p.holes_stop, p.removals, p.cold_stop,
               CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END
        FROM penstock_partition AS p
        JOIN penstock_event_type AS t ON t.id = p.event_type_id
        LEFT JOIN LATERAL (SELECT "offset", received_at FROM penstock_event
                           WHERE partition_id = p.id AND "offset" >= p.floor ORDER BY "offset" DESC LIMIT 1) AS e ON true
        WHERE p.id = ANY(wanted_ids)) AS h ON true;
END $$;
