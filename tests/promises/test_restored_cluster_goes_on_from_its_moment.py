"""The commands of docs/guides/backup.md restore a PostgreSQL cluster to a moment, and the hub goes on from there."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from penstock.errors import CursorExpired
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.postgres import PostgresCluster, PostgresMissing, find_programs, identity
from tests.promises.scene import NAME, Follower, Remote, assert_dense, commit_to_outbox, event, feed, hub_on, until

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "backup.md"


def run_block(name: str, *, is_hub: bool = False, **variables: str) -> None:
    """Run a block of the page as the user of the cluster, or as that of the hub."""
    [script] = re.findall(rf"^```sh {name}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    path = f"{find_programs()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", script],
        env={"PATH": path, **variables},
        check=False,
        capture_output=True,
        encoding="utf-8",
        cwd="/",
        **({} if is_hub else identity()),
    )
    assert done.returncode == 0, done.stderr


class RestoredCluster(PostgresCluster):
    """A cluster whose files are those of a base backup."""

    def __init__(self, backups: Path, moment: str) -> None:
        self._backups, self._moment = backups, moment
        super().__init__()

    def _init(self) -> None:
        if user := self._identity.get("user"):
            shutil.chown(self._directory, user, user)
        run_block("restore", BACKUPS=str(self._backups), PGDATA=str(self._data), MOMENT=self._moment)


@pytest.fixture
def backups() -> Iterator[Path]:
    """A directory for the archive and the base backup, which belongs to the user of the cluster."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-backups-"))
    (directory / "wal").mkdir()
    if user := identity().get("user"):
        for path in (directory, directory / "wal"):
            shutil.chown(path, user, user)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def archived(backups: Path) -> Iterator[PostgresCluster]:
    """A cluster that archives its write-ahead log."""
    command = f"test ! -f {backups}/wal/%f && cp %p {backups}/wal/%f"
    try:
        cluster = PostgresCluster(archive_mode="on", archive_command=command)
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    with cluster:
        yield cluster


@contextmanager
def publishing(hub: LiveHub) -> Iterator[list[int]]:
    """Publish numbers through a hub while the block runs; yield those that it has acknowledged."""
    acknowledged: list[int] = []
    stop = threading.Event()

    def publish() -> None:
        with closing(Remote(hub.port)) as remote:
            while not stop.is_set():
                assert remote.publish({"n": len(acknowledged)})[0] == 200
                acknowledged.append(len(acknowledged))

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        thread.join()


def now(url: str) -> str:
    with psycopg.connect(url) as connection:
        [moment] = connection.execute("SELECT clock_timestamp()::text").fetchone() or ("",)
        return str(moment)


def archive_the_rest(url: str, cluster: PostgresCluster) -> None:
    """Stop the cluster: it archives its last segment."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_switch_wal()")
    cluster.stop()


def test_restored_cluster_has_what_was_acknowledged_and_refuses_later_cursors(
    archived: PostgresCluster, backups: Path
) -> None:
    url = archived.create_database()
    with live_hub(url) as hub:
        with closing(Remote(hub.port)) as remote:
            remote.create()
        with publishing(hub) as acknowledged:
            until(lambda: len(acknowledged) > 20, "events are published")
            run_block("backup", DATABASE_URL=url, BACKUPS=str(backups))
            enough = len(acknowledged) + 20
            until(lambda: len(acknowledged) > enough, "events are published after the base backup")
        kept = len(acknowledged)
    commit_to_outbox(url, {"n": "in the outbox"})
    moment = now(url)
    with hub_on(url) as lost:
        lost.log.publish(NAME, [event({"n": "lost"}) for _ in range(3)])
        reader = Follower(lost)
        reader.all()
    archive_the_rest(url, archived)

    with RestoredCluster(backups, moment) as restored:
        again = restored.url(url.rpartition("/")[2])
        run_block("recovered", is_hub=True, DATABASE_URL=again)
        with hub_on(again) as hub:
            until(lambda: len(feed(hub)) == kept + 1, "the outbox is moved")
            hub.log.publish(NAME, [event({"n": "new"}) for _ in range(9)])
            assert [each["n"] for each in feed(hub)] == [*range(kept), "in the outbox", *["new"] * 9]
            reader.hub = hub
            with pytest.raises(CursorExpired):
                reader.page()
        assert_dense(again)
