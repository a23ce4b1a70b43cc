-- Select a subscription by its id, and lock it.
SELECT id, definition, created_at, updated_at, revision, resetting_until FROM penstock_subscription WHERE id = :id FOR UPDATE
