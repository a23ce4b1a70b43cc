"""Hubs of both databases, for clients of Nakadi; a section that a test names is one of the digest of its contract."""

from collections.abc import Iterator

import httpx2
import pytest
from pyNakadi import NakadiClient

from penstock.testing.live_hub import LiveHub, live_hub
from tests.nakadi import STREAM_BYTES, Nakadi
from tests.scenes import played
from tests.served import client_of

__all__ = ["played"]

STRICT = ["--nakadi-strict", "--stream-bytes", str(STREAM_BYTES)]


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """Which of the two it is."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def nakadi_hub(request: pytest.FixtureRequest, database: str) -> LiveHub:
    """A hub as it is by default; one for all tests, since there are many and it takes its time to make."""
    hub: LiveHub = request.getfixturevalue(f"{database}_hub")
    return hub


@pytest.fixture(scope="session")
def nakadi_http(nakadi_hub: LiveHub) -> Iterator[httpx2.Client]:
    """A client of it."""
    with client_of(nakadi_hub) as client:
        yield client


@pytest.fixture(scope="session")
def strict_hub(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, database: str
) -> Iterator[LiveHub]:
    """One that keeps to Nakadi's limits and to its problems, as it is set up for its acceptance tests."""
    folder = tmp_path_factory.mktemp("strict")
    url = f"sqlite:///{folder}/hub.db"
    if database == "postgres":
        url = request.getfixturevalue("postgres_cluster").create_database()
    with live_hub(url, log=folder / "hub.log", options=STRICT) as hub:
        yield hub


@pytest.fixture(scope="session")
def strict_http(strict_hub: LiveHub) -> Iterator[httpx2.Client]:
    """A client of it."""
    with client_of(strict_hub) as client:
        yield client


@pytest.fixture
def nakadi(nakadi_http: httpx2.Client) -> Nakadi:
    """A hub as it is by default, on SQLite and on PostgreSQL in turn."""
    return Nakadi(nakadi_http)


@pytest.fixture
def strict(strict_http: httpx2.Client) -> Nakadi:
    """A strict one, likewise."""
    return Nakadi(strict_http)


@pytest.fixture
def client(nakadi: Nakadi) -> Iterator[NakadiClient]:
    """A client that others have written for Nakadi, of the hub as it is by default."""
    found = NakadiClient("a token that nobody asks for", str(nakadi.http.base_url).rstrip("/"))
    yield found
    found.session.close()


@pytest.fixture(scope="session")
def scene_hub(nakadi_http: httpx2.Client) -> Nakadi:
    """A hub as it is by default, for scenes that are played at once."""
    return Nakadi(nakadi_http)
