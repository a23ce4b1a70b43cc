-- The heads of the partitions :ids; those whose event type is gone are left out. Where the heads were locked first,
-- this is a statement of its own, so that its snapshot is younger than the locks. Events below the floor, which are being
-- deleted, are not looked at. The last column is the timeline of the primary: see `PrimaryHistory`.
SELECT p.id, t.revision, p.floor, greatest(p.floor, p.holes_stop, coalesce(e."offset" + 1, 0)),
       greatest(p.received_at, coalesce(e.received_at, 0)), p.holes_stop, p.removals, p.cold_stop,
       CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END
FROM penstock_partition AS p
JOIN penstock_event_type AS t ON t.id = p.event_type_id
LEFT JOIN LATERAL (SELECT "offset", received_at FROM penstock_event
                   WHERE partition_id = p.id AND "offset" >= p.floor ORDER BY "offset" DESC LIMIT 1) AS e ON true
WHERE p.id = ANY(:ids)
