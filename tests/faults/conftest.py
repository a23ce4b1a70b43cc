"""Fixtures of the fault matrix: each fault is played on both databases, with both clients."""

from collections.abc import Iterator

import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.faults.either import Handle, Kind
from tests.faults.scene import Scene, scene_on
from tests.served import postgres_hub, sqlite_hub

__all__ = ["postgres_hub", "sqlite_hub"]


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """The kind of client."""
    found: Kind = request.param
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def hub(request: pytest.FixtureRequest) -> LiveHub:
    """A hub that outlives the test."""
    found: LiveHub = request.getfixturevalue(f"{request.param}_hub")
    return found


@pytest.fixture
def scene(hub: LiveHub, kind: Kind) -> Iterator[Scene]:
    """A feed with one partition."""
    with scene_on(hub.database, hub.port, kind) as scene:
        yield scene


@pytest.fixture
def mine(scene: Scene) -> Handle:
    """A producer of the group `mine` on that feed; it makes two attempts."""
    return scene.producer()


@pytest.fixture
def wide(hub: LiveHub, kind: Kind) -> Iterator[Scene]:
    """A feed with four partitions."""
    with scene_on(hub.database, hub.port, kind, 4) as scene:
        yield scene


@pytest.fixture(scope="package")
def mortal_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub on SQLite that tests may kill; they start it again."""
    folder = tmp_path_factory.mktemp("mortal")
    with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log") as hub:
        yield hub


@pytest.fixture(scope="package")
def mortal_postgres(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub on PostgreSQL that tests may kill; they start it again."""
    url = request.getfixturevalue("postgres_cluster").create_database()
    with live_hub(url, log=tmp_path_factory.mktemp("mortal") / "hub.log") as hub:
        yield hub


@pytest.fixture(params=["sqlite", "postgres"])
def mortal(request: pytest.FixtureRequest) -> LiveHub:
    """A hub that the test may kill, and starts again for the next test."""
    hub: LiveHub = request.getfixturevalue(f"mortal_{request.param}")
    return hub
