"""Producers of both databases; a row that a test names is one of the digest of idempotent publishing, 4.10."""

import httpx2
import pytest

from tests.producing import Producer
from tests.served import create


@pytest.fixture
def mine(either_http: httpx2.Client) -> Producer:
    """The producer group `mine`, of which nobody has heard, in the one partition of a feed without events."""
    return Producer(create(either_http))


@pytest.fixture
def mine4(either_http: httpx2.Client) -> Producer:
    """The same in the first of four partitions."""
    return Producer(create(either_http, 4))
