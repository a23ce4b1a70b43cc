-- Record the definition of a subscription and its reset deadline.
UPDATE penstock_subscription SET definition = :definition, updated_at = :at, resetting_until = :until WHERE id = :id
