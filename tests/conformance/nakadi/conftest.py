"""Hubs on both databases, for clients of Nakadi. Tests name the cases of Nakadi's acceptance tests that they play."""

from collections.abc import Iterator

import httpx2
import pytest
from pyNakadi import NakadiClient

from penstock.testing.live_hub import LiveHub, live_hub
from tests.nakadi import STREAM_BYTES, Nakadi
from tests.scenes import played
from tests.served import as_new, client_of

__all__ = ["played"]

STRICT = ["--nakadi-strict", "--stream-bytes", str(STREAM_BYTES)]


@pytest.fixture(scope="package", params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """The database of the hubs."""
    name: str = request.param
    return name


@pytest.fixture(scope="package")
def nakadi_hub(request: pytest.FixtureRequest, database: str) -> LiveHub:
    """A hub with default settings, which all tests share."""
    hub: LiveHub = request.getfixturevalue(f"{database}_hub")
    return hub


@pytest.fixture(scope="package")
def nakadi_http(nakadi_hub: LiveHub) -> Iterator[httpx2.Client]:
    """A client of it."""
    with client_of(nakadi_hub) as client:
        yield client


@pytest.fixture(scope="package")
def strict_http(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, database: str
) -> Iterator[httpx2.Client]:
    """A client of a hub that keeps to Nakadi's limits and problems, as it is set up for Nakadi's acceptance tests."""
    folder = tmp_path_factory.mktemp("strict")
    url = f"sqlite:///{folder}/hub.db"
    if database == "postgres":
        url = request.getfixturevalue("postgres_cluster").create_database()
    with live_hub(url, log=folder / "hub.log", options=STRICT) as hub, client_of(hub) as client:
        yield client


@pytest.fixture
def nakadi(nakadi_http: httpx2.Client) -> Nakadi:
    """A hub with default settings, on SQLite and on PostgreSQL in turn."""
    return Nakadi(nakadi_http)


@pytest.fixture
def strict(strict_http: httpx2.Client) -> Nakadi:
    """A strict hub, likewise."""
    return Nakadi(strict_http)


@pytest.fixture
def restored(nakadi: Nakadi) -> Iterator[None]:
    """Switch features off and lift blocks after the test."""
    yield
    as_new(nakadi.http)


@pytest.fixture
def client(nakadi: Nakadi) -> Iterator[NakadiClient]:
    """pyNakadi, an independent client of Nakadi, connected to a hub with default settings."""
    found = NakadiClient("any token", str(nakadi.http.base_url).rstrip("/"))
    yield found
    found.session.close()


@pytest.fixture(scope="package")
def scene_hub(nakadi_http: httpx2.Client) -> Nakadi:
    """A hub with default settings, for scenes that are played at once."""
    return Nakadi(nakadi_http)
