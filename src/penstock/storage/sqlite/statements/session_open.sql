-- Add a stream.
INSERT INTO penstock_session (id, subscription, hub_id, wants, batch_limit, commit_ms, secret, opened_at, extensions)
VALUES (:id, :subscription, :hub_id, :wants, :batch_limit, :commit_ms, :secret, :opened_at, :extensions)
