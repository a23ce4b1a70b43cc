"""Idempotent producers over HTTP."""
