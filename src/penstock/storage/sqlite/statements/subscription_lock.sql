-- Select a subscription by its id; a write transaction has locked the whole file.
SELECT id, definition, created_at, updated_at, revision, resetting_until FROM penstock_subscription WHERE id = :id
