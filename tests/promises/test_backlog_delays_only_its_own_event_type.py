"""However much waits in the outbox of one event type, the others are published and read meanwhile."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.errors import HubUnavailable
from penstock.hub import committer as commit
from penstock.hub.hub import Hub
from penstock.hub.log.outbox import MOVE_ROWS
from penstock.storage import Store, Tx, open_store
from penstock.storage.store import AppendPlan
from tests.failing import has_code
from tests.promises.scene import PATIENCE_SECONDS, create, event, fill_outbox, hub_on, rows_of, until

MOVES = 4
ROWS = MOVES * MOVE_ROWS
"""In the outbox of the busy event type: so many that they are moved in several transactions."""


class BesiegedStore:
    """A store beside a service that inserts after each transaction more rows than the next one can move."""

    def __init__(self, store: Store, url: str) -> None:
        self._store = store
        self._url = url
        self.inserted = 0
        self.writes = 0
        self.at_write: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def write(self, *, patient: bool = True, plan: AppendPlan | None = None) -> Iterator[Tx]:
        self.writes += 1
        self.at_write()
        with self._store.write(patient=patient, plan=plan) as tx:
            yield tx
        fill_outbox(self._url, 2 * MOVE_ROWS, "busy")
        self.inserted += 2 * MOVE_ROWS


@pytest.fixture
def besieged(sqlite_url: str) -> Iterator[tuple[Hub, BesiegedStore]]:
    """A hub with a backlog that grows faster than it is moved."""
    with hub_on(sqlite_url) as first:
        create(first, "busy")
    fill_outbox(sqlite_url, ROWS, "busy")
    store = BesiegedStore(open_store(sqlite_url), sqlite_url)
    hub = Hub(store)  # type: ignore[arg-type]
    yield hub, store
    hub.stop(timeout=0)


@pytest.fixture
def idle(url: str) -> Iterator[Hub]:
    """A hub that moves nothing by itself, with a backlog of one of its two event types."""
    with hub_on(url, starts=False) as hub:
        for name in ("busy", "other"):
            create(hub, name)
        fill_outbox(url, ROWS, "busy")
        yield hub


def test_other_event_type_is_published_before_the_backlog_is_moved(idle: Hub) -> None:
    order: list[str] = []
    ended = threading.Event()
    moving = idle.log.move("busy")
    moving.add_done_callback(lambda _: (order.append("busy"), ended.set()))
    published = idle.log.submit("other", [event({})])
    published.add_done_callback(lambda _: order.append("other"))

    assert ended.wait(PATIENCE_SECONDS)
    assert published.result(PATIENCE_SECONDS) is not None
    moving.result()
    assert order == ["other", "busy"]
    assert [head.next_offset for head in idle.log.find_heads("busy")[1].values()] == [ROWS]


def test_read_that_cannot_have_the_backlog_in_time_is_refused(idle: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "MOVE_TIMEOUT", -1.0)
    with pytest.raises(HubUnavailable, check=has_code("outbox-backlog")) as refused:
        idle.log.settle("busy")

    assert refused.value.retryable
    monkeypatch.undo()
    until(lambda: not idle.log.settle("busy"), "the backlog is moved")


def test_read_waits_only_for_rows_that_were_committed_before_it(
    besieged: tuple[Hub, BesiegedStore], sqlite_url: str
) -> None:
    hub, store = besieged

    assert hub.log.settle("busy")
    head = hub.log.reader.open("busy", None, [], 1).feed.partition_ids[0]
    with store.read() as tx:
        moved = tx.log.find_heads([head])[head].next_offset
    ((left,),) = rows_of(sqlite_url, "SELECT count(*) FROM penstock_outbox")

    assert ROWS <= moved < ROWS + 2 * MOVE_ROWS
    assert left == ROWS + store.inserted - moved > MOVE_ROWS


def test_publish_waits_only_for_rows_that_were_committed_before_it(besieged: tuple[Hub, BesiegedStore]) -> None:
    hub, _ = besieged

    published = hub.log.publish("busy", [event({"n": "mine"})])

    assert ROWS < published.next_offsets[0] <= ROWS + 2 * MOVE_ROWS + 1


def test_publish_is_not_delayed_by_later_publishes(besieged: tuple[Hub, BesiegedStore]) -> None:
    hub, store = besieged
    first = hub.log.submit("busy", [event({"n": "first"})])

    def come_later() -> None:
        if not first.done() and store.writes < 4 * MOVES:
            hub.log.submit("busy", [event({"n": "later"})])

    store.at_write = come_later

    assert first.result(PATIENCE_SECONDS) is not None
    assert store.writes <= MOVES + 3
