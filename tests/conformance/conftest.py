"""Fixtures of the tests of the wire protocols."""

from tests.served import either_http, feed, feed4, http, postgres_hub, sqlite_hub

__all__ = ["either_http", "feed", "feed4", "http", "postgres_hub", "sqlite_hub"]
