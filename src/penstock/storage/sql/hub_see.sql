-- Record a heartbeat of a hub.
INSERT INTO penstock_hub AS h (id, seen_at) VALUES (:id, clock_micros())
ON CONFLICT (id) DO UPDATE SET seen_at = greatest(h.seen_at, excluded.seen_at)
RETURNING seen_at
