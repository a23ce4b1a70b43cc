"""However much waits in the outbox of one event type, others are published and read meanwhile."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import OutboxBacklog
from penstock.hub import commit
from penstock.hub.hub import Hub
from penstock.hub.outbox import MOVE_ROWS
from penstock.storage import Store, Tx, open_store
from penstock.storage.opening import Opening
from penstock.testing.factories import a_new_event, an_event_type

ROWS = 60_000


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """A hub on SQLite with much in the outbox of one event type, and another event type."""
    store = open_store(f"sqlite:///{tmp_path}/hub.db")
    store.migrate()
    hub = Hub(store)
    for name in ("busy", "other"):
        hub.create_event_type(an_event_type(name))
    with closing(sqlite3.connect(tmp_path / "hub.db")) as service:
        rows = [("busy", f'{{"n":{n}}}') for n in range(ROWS)]
        service.executemany("INSERT INTO penstock_outbox (event_type, data) VALUES (?, ?)", rows)
        service.commit()
    return hub


def test_another_event_type_is_published_before_the_backlog_is_moved(hub: Hub) -> None:
    order: list[str] = []
    ended = threading.Event()
    moving = hub.move("busy")
    moving.add_done_callback(lambda _: (order.append("busy"), ended.set()))
    published = hub.submit("other", [a_new_event()])
    published.add_done_callback(lambda _: order.append("other"))

    assert ended.wait(300)
    moving.result()
    assert published.result() is not None
    assert order == ["other", "busy"]
    assert hub.heads("busy")[1][hub.event_type("busy").partition_ids[0]].next_offset == ROWS
    hub.stop()


def test_a_read_that_cannot_have_it_all_in_time_is_told_so(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "MOVE_SECONDS_MAX", -1.0)

    with pytest.raises(OutboxBacklog) as told:
        hub.settle("busy")

    assert told.value.retryable
    monkeypatch.undo()
    started_at = time.monotonic()
    while hub.settle("busy"):
        assert time.monotonic() - started_at < 300
    hub.stop()


class _Besieged:
    """The store, beside a service that inserts more after each of its transactions than the next one can move."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path
        self.inserted = 0
        self.writes = 0
        self.at_write: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def write(self, *, patient: bool = True, opening: Opening | None = None) -> Iterator[Tx]:
        self.writes += 1
        self.at_write()
        with self._store.write(patient=patient, opening=opening) as tx:
            yield tx
        with closing(sqlite3.connect(self._path)) as service:
            rows = [("busy", '{"late":true}')] * 2 * MOVE_ROWS
            service.executemany("INSERT INTO penstock_outbox (event_type, data) VALUES (?, ?)", rows)
            service.commit()
        self.inserted += len(rows)


def test_what_is_committed_after_a_read_began_does_not_hold_it_up(hub: Hub, tmp_path: Path) -> None:
    store = _Besieged(open_store(f"sqlite:///{tmp_path}/hub.db"), tmp_path / "hub.db")
    beside = Hub(store)

    assert beside.settle("busy")
    head = hub.look("busy", None, [], 1).feed.partition_ids[0]
    with store.read() as tx:
        moved = tx.events.heads([head])[head].next_offset
    with closing(sqlite3.connect(tmp_path / "hub.db")) as service:
        (left,) = service.execute("SELECT count(*) FROM penstock_outbox").fetchone()

    assert ROWS <= moved < ROWS + 2 * MOVE_ROWS
    assert left == ROWS + store.inserted - moved > MOVE_ROWS
    beside.stop()
    hub.stop()


def test_a_publish_waits_for_no_more_than_was_in_the_outbox_before_it(hub: Hub, tmp_path: Path) -> None:
    beside = Hub(_Besieged(open_store(f"sqlite:///{tmp_path}/hub.db"), tmp_path / "hub.db"))

    published = beside.publish("busy", [a_new_event({"n": "mine"})])

    assert ROWS < published.next_offsets[0] <= ROWS + 2 * MOVE_ROWS + 1
    beside.stop()
    hub.stop()


def test_who_has_waited_is_not_put_off_again_by_those_who_come_later(hub: Hub, tmp_path: Path) -> None:
    store = _Besieged(open_store(f"sqlite:///{tmp_path}/hub.db"), tmp_path / "hub.db")
    beside, needed = Hub(store), ROWS // MOVE_ROWS
    first = beside.submit("busy", [a_new_event({"n": "first"})])

    def come_later() -> None:
        if not first.done() and store.writes < 4 * needed:
            beside.submit("busy", [a_new_event({"n": "later"})])

    store.at_write = come_later

    assert first.result(300) is not None
    assert store.writes <= needed + 3
    beside.stop(timeout_s=0)
    hub.stop()
