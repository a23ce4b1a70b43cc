-- Select those of the subscriptions :ids (a JSON array) with a session whose time is over, or whose hub sent no
-- heartbeat for :lease_us microseconds.
SELECT DISTINCT s.subscription
FROM penstock_session AS s
LEFT JOIN penstock_hub AS h ON h.id = s.hub_id
WHERE s.subscription IN (SELECT value FROM json_each(:ids))
  AND (s.holds_until <= clock_micros()
       OR s.holds_until IS NULL AND coalesce(h.seen_at, 0) < clock_micros() - :lease_us)
