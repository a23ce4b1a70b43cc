"""Fixtures of the server's tests: a hub on each database, and feeds; coroutines run under asyncio, as the hub does."""

import pytest

from tests.served import either_http, feed, feed4, http, postgres_hub, sqlite_hub

__all__ = ["either_http", "feed", "feed4", "http", "postgres_hub", "sqlite_hub"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
