-- Forget what was done to a processor.
DELETE FROM {table}_history WHERE processor = :processor
