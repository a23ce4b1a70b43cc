-- Add a stream.
INSERT INTO penstock_session (id, subscription, hub_id, wants, batch_limit, commit_ms, secret, opened_at, extensions)
VALUES (%(id)s, %(subscription)s, %(hub_id)s, %(wants)s, %(batch_limit)s, %(commit_ms)s, %(secret)s, %(opened_at)s, %(extensions)s)
