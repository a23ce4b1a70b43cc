-- Forgets all that a consumer has seen of a feed.
DELETE FROM {table} WHERE feed = :feed AND consumer = :consumer
