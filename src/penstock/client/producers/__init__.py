"""Publish each event once, from afar."""
