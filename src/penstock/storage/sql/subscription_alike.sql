-- Select the subscription of an identity.
SELECT id, definition, created_at, updated_at, revision, resetting_until FROM penstock_subscription WHERE identity = :identity
