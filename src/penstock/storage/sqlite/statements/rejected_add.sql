-- Record a row that cannot be published, its texts given as bytes.
INSERT INTO penstock_rejected (event_type, data, key, headers, "partition", created_at, rejected_at, reason)
VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), ?, CAST(? AS TEXT),
        strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1e6, 'unixepoch'), ?)
