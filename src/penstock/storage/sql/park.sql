-- Insert a parked key.
INSERT INTO penstock_parked (subscription, event_type, "partition", key, attempts, parked_at, is_retried)
VALUES (:subscription, :event_type, :partition, :key, :attempts, :at, FALSE)
RETURNING id
