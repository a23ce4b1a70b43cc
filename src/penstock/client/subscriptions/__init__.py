"""Consume and administer subscriptions over HTTP."""
