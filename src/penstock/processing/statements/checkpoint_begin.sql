-- Keep the first position of a tranche; nothing comes back where there is one.
INSERT INTO {table} (processor, tranche, position, updated_at, owner)
VALUES (:processor, :tranche, :position, :now, :owner)
ON CONFLICT (processor, tranche) DO NOTHING
RETURNING tranche
