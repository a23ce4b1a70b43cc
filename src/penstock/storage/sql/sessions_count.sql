-- Count the sessions that are streaming, of hubs that have sent a heartbeat since :lease_us microseconds ago.
SELECT count(*)
FROM penstock_session AS s
JOIN penstock_hub AS h ON h.id = s.hub_id
WHERE s.holds_until IS NULL AND h.seen_at > clock_micros() - :lease_us
