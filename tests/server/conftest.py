"""What tests of the server can ask for."""

from tests.served import either_http, feed, feed4, http, postgres_hub, sqlite_hub

__all__ = ["either_http", "feed", "feed4", "http", "postgres_hub", "sqlite_hub"]
