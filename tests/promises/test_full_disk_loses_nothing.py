"""The disk of the database is full: nothing that was stored is lost, and the hub goes on once there is room."""

import contextlib
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
from tests.promises.scene import NAME, Remote, commit_to_outbox, event, feed, hub_on, until

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


def test_publish_without_room_is_refused_and_stored_events_stay(on_small_disk: tuple[str, SmallDisk]) -> None:
    url, disk = on_small_disk
    with hub_on(url, partitions=1) as hub:
        disk.fill(leave=4 * MIB)
        stored = []
        with contextlib.suppress(DiskFull):
            for n in range(2000):
                hub.log.publish(NAME, [event({"n": n, "i": i, "x": PADDING}) for i in range(3)])
                stored += [(n, i) for i in range(3)]
        assert 0 < len(stored) < 6000
        assert [(each["n"], each["i"]) for each in feed(hub)] == stored

        disk.make_room()
        hub.log.publish(NAME, [event({"n": "room", "i": 0})])

        assert [(each["n"], each["i"]) for each in feed(hub)] == [*stored, ("room", 0)]
    with hub_on(url) as hub:
        assert len(feed(hub)) == len(stored) + 1


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


def test_full_disk_is_503_over_http_until_it_has_room(on_small_disk: tuple[str, SmallDisk]) -> None:
    url, disk = on_small_disk
    with live_hub(url) as hub, closing(Remote(hub.port)) as remote:
        remote.create()
        disk.fill(leave=4 * MIB)
        stored = 0
        while (status := remote.publish({"n": stored, "x": PADDING})[0]) == 200:
            stored += 1
        assert status == 503
        line = json.dumps({"data": {"x": PADDING * 20}, "partition": 0}).encode()
        status, body, headers = remote.ask("POST", remote.path, line)
        assert (status, json.loads(body)["type"]) == (503, "urn:penstock:problem:disk-full")
        assert int(headers["Retry-After"]) > 0
        assert [each["n"] for each in remote.all()] == list(range(stored))

        disk.make_room()

        until(lambda: remote.publish({"n": stored})[0] == 200, "the hub publishes again")
        assert [each["n"] for each in remote.all()] == list(range(stored + 1))
