-- Record a heartbeat of a hub.
INSERT INTO penstock_hub AS h (id, seen_at) VALUES (:id, CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))
ON CONFLICT (id) DO UPDATE SET seen_at = max(h.seen_at, excluded.seen_at)
RETURNING seen_at
