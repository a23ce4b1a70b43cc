-- Record a row that cannot be published.
INSERT INTO penstock_rejected (event_type, data, key, headers, "partition", created_at, rejected_at, reason)
VALUES (?, ?, ?, ?, ?, ?, to_timestamp(? / 1e6), ?)
