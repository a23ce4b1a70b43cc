-- Inserts nothing, but asks for the write lock before anything is read: SQLite waits for the lock at a transaction's
-- first statement alone, and fails at once where a transaction that began as a read wants to write.
INSERT INTO penstock_outbox (event_type, data) SELECT '', '' WHERE 0
