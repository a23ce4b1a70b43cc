"""What the client's unit tests share."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Which event loop async tests run on."""
    return "asyncio"
