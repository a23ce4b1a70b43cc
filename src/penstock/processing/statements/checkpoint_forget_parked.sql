-- Forget what a processor has parked.
DELETE FROM {table}_parked WHERE processor = :processor
