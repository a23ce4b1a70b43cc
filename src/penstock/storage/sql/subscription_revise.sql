-- Raise the revision of a subscription, so that its streams look for changes.
UPDATE penstock_subscription SET revision = revision + 1 WHERE id = :id RETURNING revision
