-- Let a key wait.
INSERT INTO penstock_parked (subscription, event_type, "partition", key, attempts, parked_at, is_retried)
VALUES (%(subscription)s, %(event_type)s, %(partition)s, %(key)s, %(attempts)s, %(at)s, false)
RETURNING id
