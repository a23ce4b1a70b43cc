-- Forget which streams of a processor are ahead.
DELETE FROM {table}_ahead WHERE processor = :processor
