-- Select whether this is a standby, of which cluster, timeline, database and table, and what it has of the partition
-- :partition_id: see `penstock.storage.postgres.replicas`. The control file knows a new timeline from the next
-- restartpoint on, the WAL receiver at once, if the role may see it.
SELECT pg_is_in_recovery(), (pg_control_system()).system_identifier,
       (SELECT oid FROM pg_database WHERE datname = current_database())::bigint,
       to_regclass('penstock_event')::oid::bigint,
       coalesce((SELECT received_tli FROM pg_stat_wal_receiver WHERE received_tli > 0),
                (pg_control_checkpoint()).timeline_id),
       p.next_offset, p.removals, p.cold_stop
FROM (VALUES (1)) AS one
LEFT JOIN LATERAL (SELECT greatest(p.floor, p.holes_stop, coalesce(e."offset" + 1, 0)) AS next_offset,
                          p.removals, p.cold_stop
                   FROM penstock_partition AS p
                   LEFT JOIN LATERAL (SELECT "offset" FROM penstock_event
                                      WHERE partition_id = p.id AND "offset" >= p.floor
                                      ORDER BY "offset" DESC LIMIT 1) AS e ON true
                   WHERE p.id = :partition_id) AS p ON true
