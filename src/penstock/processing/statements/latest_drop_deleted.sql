-- Forgets entities of a feed that were deleted before a time.
DELETE FROM {table} WHERE feed = :feed AND consumer = :consumer AND deleted = 1 AND applied_at < :before
