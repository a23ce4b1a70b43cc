"""The rules of subscriptions: their definition, the assignment of partitions, and delivery."""
