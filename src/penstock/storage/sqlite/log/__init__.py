"""The log and the outbox in SQLite."""
