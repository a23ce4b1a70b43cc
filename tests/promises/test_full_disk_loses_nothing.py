"""The disk of the database is full: nothing that was stored is lost, and the hub goes on once there is room."""

import json
import os
import pwd
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from penstock.errors import DiskFull
from penstock.testing.live_hub import live_hub
from penstock.testing.postgres import PostgresCluster
from tests.promises.disk import MIB, SmallDisk, small_disk
from tests.promises.scene import NAME, Remote, commit_to_outbox, feed, hub_on, until

PADDING = random.Random(0).randbytes(10_000).hex()  # No database can make less of it.


@pytest.fixture(params=["sqlite", "postgres"])
def on_small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, SmallDisk]]:
    """A database whose events lie on a small disk."""
    if request.param == "sqlite":
        with small_disk(tmp_path / "small", 24 * MIB) as disk:
            yield f"sqlite:///{disk.path}/penstock.db", disk
        return
    cluster: PostgresCluster = request.getfixturevalue("postgres_cluster")
    url: str = request.getfixturevalue("postgres_url")
    place = cluster.log.parent / "small"  # Where the server's user may go.
    owner = pwd.getpwnam("postgres").pw_uid if os.geteuid() == 0 else os.geteuid()  # As whom the server runs.
    with small_disk(place, 24 * MIB, owner) as disk:
        tables = disk.path / "tables"
        tables.mkdir()
        os.chown(tables, owner, -1)
        database = url.rpartition("/")[2]
        with psycopg.connect(cluster.url(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{tables}'".encode())
            connection.execute(f"ALTER DATABASE {database} SET default_tablespace = small".encode())
        try:
            yield url, disk
        finally:
            cluster.drop_database(url)
            with psycopg.connect(cluster.url(), autocommit=True) as connection:
                connection.execute("DROP TABLESPACE small")
    place.rmdir()


def test_outbox_is_moved_once_the_log_has_room_again(on_small_disk: tuple[str, SmallDisk]) -> None:
    url, disk = on_small_disk
    rows = [{"n": n, "x": PADDING} for n in range(150)]
    with hub_on(url, partitions=1):
        pass
    commit_to_outbox(url, *rows)
    disk.fill(leave=MIB // 2)
    with hub_on(url) as hub:
        with pytest.raises(DiskFull):
            hub.log.settle(NAME)

        disk.make_room()

        assert [each["n"] for each in feed(hub)] == [each["n"] for each in rows]


def test_publishes_without_room_are_503_and_what_was_stored_stays(on_small_disk: tuple[str, SmallDisk]) -> None:
    url, disk = on_small_disk
    with live_hub(url) as hub, closing(Remote(hub.port)) as remote:
        remote.create()
        disk.fill(leave=4 * MIB)
        stored: list[tuple[int, int]] = []
        while (status := remote.publish(*({"n": len(stored), "i": i, "x": PADDING} for i in range(3)))[0]) == 200:
            stored += [(len(stored), i) for i in range(3)]
        assert status == 503
        line = json.dumps({"data": {"x": PADDING * 20}, "partition": 0}).encode()
        status, body, headers = remote.ask("POST", remote.path, line)
        assert (status, json.loads(body)["type"]) == (503, "urn:penstock:problem:disk-full")
        assert int(headers["Retry-After"]) > 0
        assert [(each["n"], each["i"]) for each in remote.all()] == stored != []

        disk.make_room()

        until(lambda: remote.publish({"n": "room", "i": 0})[0] == 200, "the hub publishes again")
    with hub_on(url) as again:
        assert [(each["n"], each["i"]) for each in feed(again)] == [*stored, ("room", 0)]
