"""Producer groups that publish idempotently, on both databases, as docs/guides/idempotent-publishing.md has it."""

import httpx2
import pytest

from tests.producing import Producer
from tests.served import create


@pytest.fixture
def mine(either_http: httpx2.Client) -> Producer:
    """The new producer group `mine` in the one partition of a feed without events."""
    return Producer(create(either_http))


@pytest.fixture
def mine4(either_http: httpx2.Client) -> Producer:
    """The same in the first of four partitions."""
    return Producer(create(either_http, 4))
