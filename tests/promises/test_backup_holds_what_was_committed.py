"""A backup that is made while hubs and a service write has all that was committed when it began, and is one moment."""

import itertools
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock.outbox
from penstock.errors import DatabaseUnsuitable
from penstock.testing.live_hub import live_hub
from tests.cli.command import Command, clean_environment
from tests.failing import has_code
from tests.promises.scene import NAME, Remote, assert_dense, event, feed, hub_on, rows_of, until


def back_up(url: str, file: Path) -> str:
    """Make a backup with the command, and return its URL."""
    made = Command(file.parent, clean_environment())("backup", file, "--database", url)
    assert made.status == 0, made.err
    assert list(file.parent.glob(f"{file.name}*")) == [file]
    return f"sqlite:///{file}"


def announce(copy: str) -> None:
    """Say that the backup has been put back."""
    assert Command(Path.cwd(), clean_environment())("restored", "--yes", "--database", copy).status == 0


@contextmanager
def running(*work: Any) -> Iterator[None]:
    """Run each of *work* again and again in a thread of its own, with the numbers from 0, while the block runs."""
    stop = threading.Event()

    def repeat(step: Any) -> None:
        for n in itertools.count():
            if stop.is_set():
                return
            step(n)

    threads = [threading.Thread(target=repeat, args=(step,)) for step in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.fixture
def filled_url(sqlite_url: str) -> str:
    """The URL of a database with an event type, a table of a service, and more events than are copied in one step."""
    with hub_on(sqlite_url, partitions=1) as hub:
        hub.log.publish(NAME, [event({"by": "early", "n": n, "x": "x" * 1000}) for n in range(10_000)])
    rows_of(sqlite_url, "CREATE TABLE shop (n INTEGER)")
    return sqlite_url


def test_backup_beside_writing_hubs_and_a_service_is_one_moment(filled_url: str, tmp_path: Path) -> None:
    acknowledged: list[tuple[str, int]] = []
    with (
        live_hub(filled_url) as one,
        live_hub(filled_url) as two,
        closing(Remote(one.port)) as first,
        closing(Remote(two.port)) as second,
        closing(
            sqlite3.connect(filled_url.removeprefix("sqlite:///"), check_same_thread=False, timeout=300)
        ) as service,
    ):

        def publish(remote: Remote, by: str, n: int) -> None:
            assert remote.publish({"by": by, "n": n})[0] == 200
            acknowledged.append((by, n))

        def commit(n: int) -> None:
            with service:
                service.execute("INSERT INTO shop VALUES (?)", (n,))
                penstock.outbox.publish(service, NAME, {"by": "shop", "n": n}, partition=0)
            time.sleep(0.01)  # A service that never pauses leaves the hubs no turn at the file.

        with running(lambda n: publish(first, "first", n), lambda n: publish(second, "second", n), commit):
            until(lambda: len(acknowledged) > 20, "events are published")
            before = list(acknowledged)
            copy = back_up(filled_url, tmp_path / "copy.db")
            enough = len(acknowledged) + 20
            until(lambda: len(acknowledged) > enough, "events are published after the backup")
        whole = first.all()

    announce(copy)
    with hub_on(copy) as hub:
        kept = feed(hub)
    assert kept[: len(kept)] == whole[: len(kept)]
    assert set(before) <= {(each["by"], each["n"]) for each in kept}
    assert len(kept) < len(whole)
    committed = [n for (n,) in rows_of(copy, "SELECT n FROM shop ORDER BY n")]
    assert committed == [each["n"] for each in kept if each["by"] == "shop"]
    assert_dense(copy)


def test_backup_is_not_served_before_its_feeds_have_new_epochs(filled_url: str, tmp_path: Path) -> None:
    copy = back_up(filled_url, tmp_path / "copy.db")

    with pytest.raises(DatabaseUnsuitable, check=has_code("backup-not-announced")), hub_on(copy):
        pass
    announce(copy)

    with hub_on(copy) as hub:
        hub.log.publish(NAME, [event({"n": 1})])
        assert len(feed(hub)) == 10_001
