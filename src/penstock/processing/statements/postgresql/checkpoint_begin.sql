-- Keep the first position of a tranche; nothing comes back where there is one.
INSERT INTO {table} (processor, tranche, position, updated_at)
VALUES (:processor, :tranche, :position, :now)
ON CONFLICT (processor, tranche) DO NOTHING
RETURNING tranche
