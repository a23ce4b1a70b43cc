"""What the client's unit tests share."""

import pytest

from tests.unit.client.kinds import ASYNC, SYNC, Kind


@pytest.fixture
def anyio_backend() -> str:
    """Which event loop async tests run on."""
    return "asyncio"


@pytest.fixture(params=[SYNC, ASYNC], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """The sync and the async client in turn."""
    found: Kind = request.param
    return found
