-- Begins the append of a few events, as the statements `begin`, `outbox_look`, `lock_heads` and `heads` do one after the
-- other: each statement of a volatile function has its own snapshot. A function keeps its plans, also where a pooler
-- allows no prepared statements. Planning took two thirds of the time, and a plan by the values given is no better.
-- Rows: the look at the outbox, and the head of one partition; its columns are NULL if none of the partitions is there.
CREATE FUNCTION penstock_begin_append(seen_xmax text, seen_running text[], wanted_ids integer[])
RETURNS TABLE (xmax text, running text[], waiting text[], id integer, revision bigint, floor bigint, next_offset bigint,
               received_at bigint, holes_stop bigint, removals bigint, cold_stop bigint, timeline text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    looked record;
BEGIN
    PERFORM set_config('idle_in_transaction_session_timeout', '20s', true);
    PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local');
    SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS xmax,
           ARRAY(SELECT xid::text FROM pg_snapshot_xip(pg_current_snapshot()) AS xid) AS running,
           ARRAY(SELECT DISTINCT event_type FROM (
                     (SELECT event_type FROM penstock_outbox WHERE xid >= seen_xmax::xid8 OFFSET 0)
                     UNION ALL
                     (SELECT event_type FROM penstock_outbox WHERE xid = ANY(seen_running::xid8[]) OFFSET 0)) AS fresh) AS waiting
    INTO looked;
    PERFORM p.id
    FROM (SELECT id FROM penstock_event_type
          WHERE id IN (SELECT event_type_id FROM penstock_partition WHERE id = ANY(wanted_ids))
          ORDER BY id FOR SHARE) AS t
    JOIN penstock_partition AS p ON p.event_type_id = t.id AND p.id = ANY(wanted_ids)
    ORDER BY p.id FOR UPDATE OF p;
    RETURN QUERY
    SELECT looked.xmax, looked.running, looked.waiting, h.*
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
