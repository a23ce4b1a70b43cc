-- Tell those who stream a subscription that something has changed.
UPDATE penstock_subscription SET revision = revision + 1 WHERE id = :id RETURNING revision
