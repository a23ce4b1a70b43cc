"""Publish events and read feeds from afar."""
