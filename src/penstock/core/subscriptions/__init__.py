"""The rules of subscriptions: their definition, assignment of partitions, delivery."""
