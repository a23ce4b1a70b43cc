"""Hubs of both databases, for clients of Nakadi; a section that a test names is one of the digest of its contract."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.nakadi import Nakadi
from tests.served import client_of


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def nakadi_http(request: pytest.FixtureRequest) -> Iterator[httpx2.Client]:
    """A client of a hub as it is by default; there are so many tests that making one for each takes a third longer."""
    with client_of(request.getfixturevalue(f"{request.param}_hub")) as client:
        yield client


@pytest.fixture
def nakadi(nakadi_http: httpx2.Client) -> Nakadi:
    """A hub as it is by default, on SQLite and on PostgreSQL in turn."""
    return Nakadi(nakadi_http)
