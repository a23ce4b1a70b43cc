-- Move a position on; nothing comes back where another one stands there than is thought.
UPDATE {table} SET position = :position, updated_at = :now
WHERE processor = :processor AND tranche = :tranche AND position = :expected
RETURNING tranche
