-- Adds nothing, but asks for the write lock before anything is read: nobody else changes what is found then.
INSERT INTO {table} (feed, consumer, entity, deleted, applied_at)
SELECT :feed, :consumer, :entities, 0, 0 WHERE 0
