"""Subscriptions: their streams, commits, leases and parked keys."""
