"""Batches that are published once."""
