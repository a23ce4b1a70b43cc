-- Let a subscription be what its definition says.
UPDATE penstock_subscription SET definition = :definition, updated_at = :at WHERE id = :id
