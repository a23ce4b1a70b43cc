-- The keys of a subscription whose events wait, and which events those are.
SELECT k.id, k.event_type, k."partition", k.key, k.attempts, k.parked_at, k.is_retried, count(*), min(e."offset"),
       max(e."offset")
FROM penstock_parked AS k
JOIN penstock_parked_event AS e ON e.parked_id = k.id
WHERE k.subscription = %(subscription)s
GROUP BY k.id
ORDER BY k.id
