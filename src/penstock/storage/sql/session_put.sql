-- Add a session, or record its extensions and until when it holds its partitions.
INSERT INTO penstock_session (id, subscription, hub_id, wants, batch_limit, commit_ms, secret, opened_at, extensions,
                              holds_until)
VALUES (:id, :subscription, :hub_id, :wants, :batch_limit, :commit_ms, :secret, :opened_at, :extensions, :holds_until)
ON CONFLICT (id) DO UPDATE SET extensions = excluded.extensions, holds_until = excluded.holds_until
