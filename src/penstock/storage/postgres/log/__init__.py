"""The log and the outbox in PostgreSQL."""
