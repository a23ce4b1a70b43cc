-- Inserts nothing, but takes the write lock before the first read: SQLite waits for the lock only at the first statement of
-- a transaction, and fails at once if a transaction that began as a read writes.
INSERT INTO penstock_outbox (event_type, data) SELECT '', '' WHERE 0
