"""However much waits in the outbox of one event type, others are published and read meanwhile."""

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from penstock.core.event import NewEvent
from penstock.errors import OutboxBacklog
from penstock.hub import commit
from penstock.hub.hub import Hub
from penstock.storage import open_store

ROWS = 60_000


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """A hub on SQLite with much in the outbox of one event type, and another event type."""
    store = open_store(f"sqlite:///{tmp_path}/hub.db")
    store.migrate()
    hub = Hub(store)
    for name in ("busy", "other"):
        hub.create_event_type({"name": name, "category": "undefined"})
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
    published = hub.submit("other", [NewEvent.of(b'{"n":1}')])
    published.add_done_callback(lambda _: order.append("other"))

    assert ended.wait(60)
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
        assert time.monotonic() - started_at < 60
    hub.stop()
