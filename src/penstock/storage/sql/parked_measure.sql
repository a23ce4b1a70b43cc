-- Select up to :limit subscriptions with parked keys, the one with the most first: how many keys, when the first was parked, and
-- how many such subscriptions there are.
SELECT s.id, s.owning_application, k.keys, k.parked_at, count(*) OVER ()
FROM (SELECT subscription, count(*) AS keys, min(parked_at) AS parked_at FROM penstock_parked GROUP BY subscription) AS k
JOIN penstock_subscription AS s ON s.id = k.subscription
ORDER BY k.keys DESC, s.id COLLATE "C"
LIMIT :limit
