-- Store where a group keeps its positions.
UPDATE penstock_group SET kept_at = :kept_at WHERE name = :name
