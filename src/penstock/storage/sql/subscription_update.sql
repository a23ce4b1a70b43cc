-- Record what a subscription is, and the deadline for its streams to end for a reset.
UPDATE penstock_subscription SET definition = :definition, updated_at = :at, resetting_until = :until WHERE id = :id
