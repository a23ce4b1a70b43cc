"""The ASGI application under servers, clients and databases that fail on demand."""

import asyncio
import json
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.events.event import NewEvent
from penstock.errors import DatabaseUnavailable
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server import state as shutdown
from penstock.storage.sqlite.store import SqliteStore, SqliteTx
from penstock.testing.factories import an_event_type
from penstock.wire.log.feedapi import ARROW
from tests.server.in_process import make_scope

pytestmark = pytest.mark.anyio
PAGE = "n=1&cursor0=_first&pagesizehint=100000"
Send = Callable[[dict[str, Any]], Awaitable[None]]


class FailingStore(SqliteStore):
    """A store whose reads fail while `failing` is set."""

    failing = False

    @contextmanager
    def read(self, *, timeout: float | None = None) -> Iterator[SqliteTx]:
        if self.failing:
            raise DatabaseUnavailable(reason="somebody pulled the plug", retry_after=7)
        with super().read(timeout=timeout) as tx:
            yield tx


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FailingStore]:
    """Four thousand events of four kilobytes: a page of several chunks. Applications leave no thread of theirs."""
    before = set(threading.enumerate())
    store = FailingStore(tmp_path / "hub.db")
    store.migrate()
    hub = Hub(store)
    hub.registry.create(an_event_type("feed"))
    event = NewEvent.of(json.dumps({"text": "x" * 4_000}).encode())
    hub.log.publish("feed", [event] * 4_000)
    hub.stop()
    yield store
    assert not [each for each in set(threading.enumerate()) - before if each.name.startswith("penstock")]


class Client:
    """A client of the application that makes one request."""

    def __init__(self, app: HubApp) -> None:
        self.app = app
        self.sent: list[dict[str, Any]] = []
        self.left = asyncio.Event()

    async def get(
        self, query: str = "", path: str = "/feeds/feed", send: Send | None = None, accept: str = "*/*"
    ) -> None:
        requests = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> dict[str, Any]:
            for request in requests:
                return request
            await self.left.wait()
            return {"type": "http.disconnect"}

        await self.app(make_scope("GET", path, query, [(b"accept", accept.encode())]), receive, send or self.take)

    async def take(self, event: Any) -> None:
        self.sent.append(event)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(event["body"] for event in self.sent[1:])

    @property
    def ended(self) -> bool:
        return not self.sent[-1].get("more_body", False)


async def waiting(app: HubApp) -> None:
    """Return once a reader waits."""
    while app.hub.log.watch.waiting == 0:  # noqa: ASYNC110 - nobody tells when a wait has begun
        await asyncio.sleep(0)


@pytest.fixture
async def client(store: FailingStore) -> AsyncIterator[Client]:
    """A client of an application that has started, and leaves no task and no waiter behind."""
    app = HubApp(lambda: Hub(store))
    async with app.lifespan():
        yield Client(app)
        assert app.hub.log.watch.waiting == 0
    await asyncio.sleep(0)
    assert not [each for each in asyncio.all_tasks() if "TestRunner" not in str(each.get_coro())]


async def test_large_page_is_sent_whole_and_as_bytes(client: Client) -> None:
    await client.get(PAGE)
    assert client.status == 200
    assert client.body.count(b'"data"') == 4_000
    assert client.ended

    client.sent.clear()
    await client.get(PAGE, accept=ARROW)
    assert {type(event["body"]) for event in client.sent[1:]} == {bytes}, "ASGI asks for no other buffers"
    with pa.ipc.open_stream(client.body) as stream:
        table = stream.read_all()
    assert table.column("offset").to_pylist() == [*range(4_000)]
    assert set(table.column("data").to_pylist()) == {json.dumps({"text": "x" * 4_000})}
    assert client.ended


@pytest.mark.parametrize(("leaves", "sent_max"), [("sending goes on", 5), ("sending fails", 3), ("sending blocks", 3)])
async def test_page_ends_when_its_client_leaves(client: Client, leaves: str, sent_max: int) -> None:
    async def send(event: Any) -> None:
        await client.take(event)
        if len(client.sent) == 3:
            if leaves == "sending fails":
                raise OSError("the client is gone")
            client.left.set()
            if leaves == "sending blocks":
                await asyncio.Event().wait()  # A buffer that nobody empties.

    await client.get(PAGE, send=send)
    assert 3 <= len(client.sent) <= sent_max
    assert not client.ended


@pytest.mark.parametrize("end", ["the client leaves", "the request is cancelled"])
async def test_wait_ends_without_an_answer(client: Client, end: str) -> None:
    request = asyncio.ensure_future(client.get("n=1&cursor0=_last&wait=60"))
    await waiting(client.app)
    if end == "the client leaves":
        client.left.set()
        await request
    else:
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    assert client.sent == []


async def test_drained_hub_answers_a_wait_at_once(client: Client) -> None:
    client.app.drain()
    await client.get("n=1&cursor0=_last&wait=60")
    assert b'"cursor"' in client.body
    assert client.ended


async def test_failure_before_a_page_is_a_problem(store: FailingStore, client: Client) -> None:
    store.failing = True
    await client.get(PAGE)
    store.failing = False
    assert (client.status, client.headers[b"retry-after"]) == (503, b"7")
    assert json.loads(client.body)["type"] == "urn:penstock:problem:database-unavailable"


async def test_failure_within_a_page_leaves_it_without_an_end(store: FailingStore, client: Client) -> None:
    async def send(event: Any) -> None:
        await client.take(event)
        store.failing = True

    with pytest.raises(Exception, match="response already started"):
        await client.get(PAGE, send=send)
    store.failing = False
    assert client.status == 200
    assert not client.ended
    assert b'"cursor"' not in client.body


async def test_hub_starts_once_its_database_is_there(store: FailingStore) -> None:
    absent = [True, True]

    def open_hub() -> Hub:
        if absent:
            absent.pop()
            raise DatabaseUnavailable(reason="not yet", retry_after=1)
        return Hub(store)

    app = HubApp(open_hub)
    statuses = []
    for _ in range(4):
        client = Client(app)
        await client.get()
        statuses.append(client.status)
    assert statuses == [503, 503, 200, 200]
    async with app.lifespan():
        pass


async def test_hub_with_newer_tables_is_unavailable_with_retry_after(store: FailingStore, client: Client) -> None:
    with sqlite3.connect(store.path) as connection:
        connection.execute("INSERT INTO penstock_migration VALUES (9999, 'of the future')")
    connection.close()
    await client.get(path="/health/ready")
    assert (client.status, client.headers[b"retry-after"]) == (503, b"30")
    assert json.loads(client.body)["type"] == "urn:penstock:problem:schema-too-new"


async def test_application_can_be_started_and_stopped_repeatedly(store: FailingStore) -> None:
    before = len(shutdown._actions)
    app = HubApp(lambda: Hub(SqliteStore(store.path)))
    for _ in range(3):
        async with app.lifespan():
            client = Client(app)
            await client.get()
            assert client.status == 200
    assert len(shutdown._actions) == before
