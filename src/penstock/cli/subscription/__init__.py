"""`penstock subscription`: makes subscriptions, watches and moves them, and helps them over bad events."""
