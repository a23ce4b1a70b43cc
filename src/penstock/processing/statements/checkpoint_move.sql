-- Move a position on; nothing comes back where another one stands there than is thought, or somebody else has taken it over.
UPDATE {table} SET position = :position, updated_at = :now
WHERE processor = :processor AND tranche = :tranche AND position = :expected
    AND (CAST(:owner AS text) IS NULL OR owner = :owner)
RETURNING tranche
