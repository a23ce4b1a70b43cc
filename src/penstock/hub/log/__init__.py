"""The log: publish, move the outbox, read."""
