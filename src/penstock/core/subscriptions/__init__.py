"""The rules of subscriptions: their definition, the assignment of partitions, delivery, and cursor tokens."""
