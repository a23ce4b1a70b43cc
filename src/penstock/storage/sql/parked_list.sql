-- Select the parked keys of a subscription with their first and last parked offset, and with :counted their number of
-- events.
SELECT k.id, k.event_type, k."partition", k.key, k.attempts, k.parked_at, k.is_retried,
       CASE WHEN CAST(:counted AS BOOLEAN) THEN (SELECT count(*) FROM penstock_parked_event WHERE parked_id = k.id) ELSE 0 END,
       (SELECT min("offset") FROM penstock_parked_event WHERE parked_id = k.id),
       (SELECT max("offset") FROM penstock_parked_event WHERE parked_id = k.id)
FROM penstock_parked AS k
WHERE k.subscription = :subscription
  AND EXISTS (SELECT 1 FROM penstock_parked_event WHERE parked_id = k.id)
ORDER BY k.id
