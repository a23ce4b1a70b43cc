-- Record a row that cannot be published.
INSERT INTO penstock_rejected (event_type, data, key, headers, "partition", created_at, rejected_at, reason)
VALUES (%s, %s, %s, %s, %s, %s, to_timestamp(%s / 1e6), %s)
