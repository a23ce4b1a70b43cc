-- Let a subscription be what its definition says.
UPDATE penstock_subscription SET definition = %(definition)s, updated_at = %(at)s WHERE id = %(id)s
