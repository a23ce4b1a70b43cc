-- The positions of all processors.
SELECT processor, tranche, position, updated_at FROM {table} ORDER BY processor, tranche
