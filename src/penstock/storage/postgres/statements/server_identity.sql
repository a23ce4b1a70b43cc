-- Select which cluster and database this is, whether it is a standby, and how far its write-ahead log has come: what is on
-- disk, or of a standby what it has replayed.
SELECT pg_is_in_recovery(), (pg_control_system()).system_identifier,
       (SELECT oid FROM pg_database WHERE datname = current_database())::bigint,
       to_regclass('penstock_event')::oid::bigint,
       CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END - '0/0'::pg_lsn
