"""Port of the log: events by partition and offset, and the outbox whose rows become events."""
