"""Hubs of both databases, for clients of Nakadi; a section that a test names is one of the digest of its contract."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.nakadi import Nakadi


@pytest.fixture
def nakadi(either_http: httpx2.Client) -> Iterator[Nakadi]:
    """A hub as it is by default, on SQLite and on PostgreSQL in turn."""
    return Nakadi(either_http)
