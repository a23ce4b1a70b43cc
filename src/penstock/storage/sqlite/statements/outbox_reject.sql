-- Record a row that cannot be published.
INSERT INTO penstock_rejected (event_type, data, key, headers, "partition", created_at, rejected_at, reason)
VALUES (?, ?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1e6, 'unixepoch'), ?)
