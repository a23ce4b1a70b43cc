"""A new hub migrates the database while a hub of the version before serves it: neither loses or refuses anything.

The old hub is real code: the package before the commit that added the newest migration, or the one that brought access
control, from the history of this repository.
"""

import io
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from penstock.storage.sqlite import SQLITE
from penstock.testing.live_hub import LiveHub
from tests.nakadi import EventType, Nakadi
from tests.promises.scene import Remote, assert_dense, assert_outbox_is_empty, commit_to_outbox, rows_of, until
from tests.served import client_of, problem_of
from tests.subscribing import Subscription, numbered, put, subscribe

pytestmark = pytest.mark.exhaustive  # It needs the history of the repository.
ROOT = Path(__file__).parents[2]
ENOUGH = 40
"""So many more of everything happen before the test takes its next step."""


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


@pytest.fixture(scope="session", params=[SQLITE.migrations[-1].name, "access"])
def old_source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `src` before a migration was added."""
    [number] = [at for at, each in enumerate(SQLITE.migrations, 1) if each.name == request.param]
    migration = f"src/penstock/storage/sqlite/migrations/{number:04}_{request.param}.sql"
    added = git("log", "--diff-filter=A", "--format=%H", "--", migration).split()
    if not added:
        pytest.skip("NOT TESTED: whether an upgrade loses nothing. This clone has no history; git fetch --unshallow.")
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=io.BytesIO(git("archive", f"{added[-1].decode()}^", "src/penstock"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


class OldHub(LiveHub):
    """A hub of the version before, in a process of its own."""

    source: Path

    def started(self, arguments: Sequence[str], output: IO[bytes]) -> Any:  # type: ignore[override]
        """Start the old code, which goes before the present one on the path."""
        return subprocess.Popen(
            [sys.executable, "-m", "penstock", *arguments],
            env=os.environ | {"PYTHONPATH": str(self.source)},
            cwd=self.source,
            stdout=output,
            stderr=output,
            stdin=subprocess.PIPE,
        )


@contextmanager
def hub_of(kind: type[LiveHub], database: str, log: Path) -> Iterator[LiveHub]:
    hub = kind(database, log=log)
    try:
        hub.start()
        yield hub
    finally:
        hub.kill()


class Load:
    """Work that goes on in threads, each of which counts what has been done for it."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def add(self, name: str, step: Callable[[int], None]) -> None:
        """Repeat *step* with the numbers from 0."""
        self.done[name] = 0

        def repeat() -> None:
            try:
                while not self._stop.is_set():
                    step(self.done[name])
                    self.done[name] += 1
            except BaseException as error:
                self._failures.append(error)
                raise

        self._threads.append(threading.Thread(target=repeat))
        self._threads[-1].start()

    def go_on(self) -> None:
        """Wait until each thread has done some more."""
        before = dict(self.done)
        until(lambda: self._failures or all(self.done[name] >= before[name] + ENOUGH for name in before), "all go on")
        assert not self._failures

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def publisher(hub: LiveHub, by: str, opened: ExitStack) -> Callable[[int], None]:
    remote = opened.enter_context(closing(Remote(hub.port)))

    def publish(n: int) -> None:
        status, said = remote.publish({"by": by, "n": n})
        assert status == 200, said

    return publish


def committer(url: str) -> Callable[[int], None]:
    """A service that commits to the outbox."""

    def commit(n: int) -> None:
        commit_to_outbox(url, {"by": "shop", "n": n})
        threading.Event().wait(0.01)  # A service that never pauses leaves the hubs no turn at a SQLite file.

    return commit


def consume(subscription: Subscription, found: list[int], count: int) -> None:
    """Consume and commit all events: *count*, with those that *found* has already."""
    with subscription.joined(batch_flush_timeout=1) as consumer:
        while len(found) < count:
            batch = consumer.batch()
            consumer.done(batch)
            found += batch.numbers


def test_old_hub_serves_on_while_a_new_one_migrates_and_takes_over(
    database_url: str, old_source: Path, tmp_path: Path
) -> None:
    OldHub.source = old_source
    found: list[int] = []
    load = Load()
    with (
        ExitStack() as opened,
        hub_of(OldHub, database_url, tmp_path / "old.log") as old,
        client_of(old) as old_http,
    ):
        [(before,)] = rows_of(database_url, "SELECT max(number) FROM penstock_migration")
        assert before < SQLITE.version
        with closing(Remote(old.port)) as remote:
            remote.create()
        subscribed = subscribe(numbered(Nakadi(old_http)))
        orders = subscribed.event_types[0]
        try:
            load.add("old", publisher(old, "old", opened))
            load.add("shop", committer(database_url))
            load.go_on()
            put(EventType(old_http, orders), *range(9))
            consume(subscribed, found, 9)

            new = opened.enter_context(hub_of(LiveHub, database_url, tmp_path / "new.log"))
            load.add("new", publisher(new, "new", opened))
            load.go_on()
            assert rows_of(database_url, "SELECT max(number) FROM penstock_migration") == [(SQLITE.version,)]

            problem_of(old_http.get("/health/ready"), 503, "schema-too-new")
            assert old_http.get("/health/live").status_code == 200
            put(EventType(old_http, orders), *range(9, 15))
            consume(subscribed, found, 15)
            with client_of(new) as new_http:
                put(EventType(new_http, orders), *range(15, 20))
                subscribed.http = new_http
                consume(subscribed, found, 20)
        finally:
            load.stop()
        assert old.stop() == 0

        with pytest.raises(RuntimeError, match="newer than"):
            old.start()
        with closing(Remote(new.port)) as remote:
            until(lambda: remote.all()[-1:] and not rows_of(database_url, "SELECT 1 FROM penstock_outbox"), "all move")
            events = [(each["by"], each["n"]) for each in remote.all()]

    for by, count in load.done.items():
        assert [n for who, n in events if who == by] == list(range(count))
    assert found == list(range(20))
    assert_dense(database_url)
    assert_outbox_is_empty(database_url)
