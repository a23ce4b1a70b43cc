"""Publish events and read feeds over HTTP."""
