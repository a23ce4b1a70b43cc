-- Forget where a processor has come to.
DELETE FROM {table} WHERE processor = :processor
