"""Batches that are published once: staged and direct."""
