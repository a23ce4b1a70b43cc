-- Select the sessions that the hub :hub_id has to stream, with its last heartbeat.
SELECT s.id, s.subscription, s.hub_id, s.wants, s.batch_limit, s.commit_ms, s.secret, s.opened_at, s.extensions,
       s.holds_until, coalesce(h.seen_at, 0)
FROM penstock_session AS s
LEFT JOIN penstock_hub AS h ON h.id = s.hub_id
WHERE s.hub_id = :hub_id AND s.holds_until IS NULL
