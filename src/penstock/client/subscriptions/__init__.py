"""Consume subscriptions from afar."""
