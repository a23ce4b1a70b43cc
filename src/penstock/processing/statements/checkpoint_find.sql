-- Where a processor has come to.
SELECT tranche, position FROM {table} WHERE processor = :processor
