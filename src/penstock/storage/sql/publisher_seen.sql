-- Record when callers have last published to event types.
INSERT INTO penstock_publisher AS p (event_type, caller, seen_at) VALUES (?, ?, ?)
ON CONFLICT (event_type, caller) DO UPDATE SET seen_at = greatest(p.seen_at, excluded.seen_at)
