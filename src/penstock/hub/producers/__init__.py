"""Idempotent producers and their sequence numbers."""
