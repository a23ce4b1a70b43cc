-- Forgets all that a consumer has applied of a feed.
DELETE FROM {table} WHERE feed = :feed AND consumer = :consumer
