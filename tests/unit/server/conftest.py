"""Fixtures of the server's unit tests: coroutines run under asyncio, as the hub does."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
