-- The sessions that the hub :hub_id has to stream, and when the hub was last seen.
SELECT s.id, s.subscription, s.hub_id, s.wants, s.batch_limit, s.commit_ms, s.secret, s.opened_at, s.extensions,
       s.holds_until, coalesce(h.seen_at, 0)
FROM penstock_session AS s
LEFT JOIN penstock_hub AS h ON h.id = s.hub_id
WHERE s.hub_id = :hub_id AND s.holds_until IS NULL
