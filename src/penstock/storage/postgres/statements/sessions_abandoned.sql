-- Select those of the subscriptions :ids (a JSON array) with a session whose time is over, or whose hub sent no
-- heartbeat for :lease.
SELECT DISTINCT s.subscription
FROM penstock_session AS s
LEFT JOIN penstock_hub AS h ON h.id = s.hub_id
WHERE s.subscription IN (SELECT value FROM json_array_elements_text(:ids::json) AS value)
  AND (s.holds_until <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
       OR s.holds_until IS NULL AND coalesce(h.seen_at, 0) < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - :lease)
