-- Move a position, whatever stands there. Who has it is to notice, even where it stays.
INSERT INTO {table} (processor, tranche, position, updated_at)
VALUES (:processor, :tranche, :position, :now)
ON CONFLICT (processor, tranche) DO UPDATE SET position = excluded.position, updated_at = excluded.updated_at, owner = NULL
