-- Select the sessions of a subscription, with the last heartbeat of their hubs.
SELECT s.id, s.subscription, s.hub_id, s.wants, s.batch_limit, s.commit_ms, s.secret, s.opened_at, s.extensions, s.holds_until,
       coalesce(h.seen_at, 0)
FROM penstock_session AS s
LEFT JOIN penstock_hub AS h ON h.id = s.hub_id
WHERE s.subscription = :id
