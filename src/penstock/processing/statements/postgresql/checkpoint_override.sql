-- Move a position, whatever stands there.
INSERT INTO {table} (processor, tranche, position, updated_at)
VALUES (:processor, :tranche, :position, :now)
ON CONFLICT (processor, tranche) DO UPDATE SET position = excluded.position, updated_at = excluded.updated_at
