"""Sending of a stream of events: to a client that takes nothing, that leaves, or that is blocked."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.core.log.batching import FeedStreamRules
from penstock.errors import Blocked, PenstockError, Unauthenticated
from penstock.hub.hub import Hub
from penstock.hub.log.watch import Waiter
from penstock.server.http.streaming import Result
from penstock.server.log import event_stream as stream_pieces
from penstock.server.log.event_stream import FeedStreamResponse, StreamPieces
from penstock.storage import open_store
from penstock.testing.factories import a_new_event, an_event_type

pytestmark = pytest.mark.anyio
NAME = "order.placed"
Message = dict[str, Any]


@pytest.fixture
def hub(sqlite_url: str) -> Iterator[Hub]:
    store = open_store(sqlite_url)
    store.migrate()
    hub = Hub(store)
    hub.registry.create(an_event_type(NAME))
    yield hub
    hub.stop()


class Client:
    """One who asks for a stream."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.got: list[Message] = []
        self.leaves = asyncio.Event()
        self.takes: Callable[[Message], Awaitable[None]] = self.take
        self.allowed: Callable[[], None] = lambda: None
        self.ended: list[PenstockError] = []
        self.cuts: list[str] = []
        self.served = 0

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.got)

    @property
    def has_all(self) -> bool:
        return self.got[-1].get("more_body") is False

    async def take(self, message: Message) -> None:
        self.got.append(message)

    async def receive(self) -> Message:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    def check_permission(self) -> None:
        self.allowed()

    def count_served(self, events: int) -> None:
        self.served += events

    def record_cut(self, reason: str) -> None:
        self.cuts.append(reason)

    def record_error(self, error: PenstockError) -> None:
        self.ended.append(error)

    async def stream(self, **rules: float) -> None:
        """Be sent a stream until it ends."""
        given = {"batch_limit": 1, "stream_limit": 0, "flush_timeout": 30, "timeout": 3600, "keep_alive_limit": 0}
        pieces = StreamPieces(
            self.hub,
            self.hub.registry.load(NAME),
            {0: 0},
            check=self.check_permission,
            rules=FeedStreamRules(**{"bytes_max": 1 << 30} | given | rules),  # type: ignore[arg-type]
            encoding=None,
        )
        with ThreadPoolExecutor(1) as workers:

            def run(function: Callable[[], Result], /) -> Awaitable[Result]:
                return asyncio.get_running_loop().run_in_executor(workers, function)

            stream = FeedStreamResponse(pieces, self, self.hub, run, encoding=None)
            await stream({"type": "http", "method": "GET"}, self.receive, lambda message: self.takes(dict(message)))


@pytest.fixture
def client(hub: Hub) -> Client:
    return Client(hub)


def publish(hub: Hub, *numbers: int) -> None:
    hub.log.publish(NAME, [a_new_event({"n": number}) for number in numbers])


async def waiting(hub: Hub) -> None:
    while hub.log.watch.waiting == 0:  # noqa: ASYNC110 - nobody tells when a wait has begun
        await asyncio.sleep(0)


async def test_stream_ends_its_body_at_the_limit(hub: Hub, client: Client) -> None:
    publish(hub, 1, 2, 3)
    await client.stream(stream_limit=3)
    assert client.got[0]["type"] == "http.response.start"
    assert (client.body.count(b"\n"), client.has_all, client.served) == (3, True, 3)
    assert client.ended == []


async def test_headers_are_sent_before_the_first_wait(hub: Hub, client: Client) -> None:
    """A server may keep headers back until a body comes, as ASGI allows: an empty one comes with them."""
    stream = asyncio.ensure_future(client.stream())
    await waiting(hub)
    start, *rest = client.got
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert rest == [{"type": "http.response.body", "body": b"", "more_body": True}]
    client.leaves.set()
    await stream


async def test_client_that_takes_nothing_is_left_a_while_after_the_end(
    hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_pieces, "SEND_TIMEOUT", 0.01)
    publish(hub, 1)

    async def stuck(message: Message) -> None:
        if message.get("body"):
            await asyncio.Event().wait()
        await client.take(message)

    client.takes = stuck
    await client.stream(timeout=0.01, flush_timeout=0.01)
    assert (client.body, client.has_all, client.served) == (b"", False, 0)
    assert client.cuts == ["the client takes nothing"]
    assert hub.log.watch.waiting == 0


async def test_client_that_takes_nothing_is_left_once_it_may_not_read(hub: Hub, client: Client) -> None:
    publish(hub, 1)

    def refuse() -> None:
        raise Unauthenticated

    async def stuck(message: Message) -> None:
        if message.get("body"):
            client.allowed = refuse
            await asyncio.Event().wait()
        await client.take(message)

    client.takes = stuck
    async with asyncio.timeout(120):
        await client.stream(flush_timeout=0.01)
    assert (client.body, client.has_all) == (b"", False)
    assert [error.code for error in client.ended] == client.cuts == ["unauthenticated"]


async def test_client_that_leaves_while_waiting_leaves_no_waiter(hub: Hub, client: Client) -> None:
    stream = asyncio.ensure_future(client.stream())
    await waiting(hub)
    client.leaves.set()
    await stream
    assert (client.body, client.has_all) == (b"", False)
    assert hub.log.watch.waiting == 0


async def test_block_during_a_wait_ends_the_stream_and_is_reported(hub: Hub, client: Client) -> None:
    def refuse() -> None:
        raise Blocked(event_type=NAME, application="x")

    stream = asyncio.ensure_future(client.stream())
    await waiting(hub)
    client.allowed = refuse
    hub.log.watch.wake_all()
    await stream
    assert (client.body, client.has_all) == (b"", True)
    assert [error.code for error in client.ended] == ["blocked"]


async def test_wake_without_events_does_not_end_the_stream(
    hub: Hub, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, begun = hub.log.watch, asyncio.Semaphore(0)
    wait = watch.wait

    def wait_and_tell(offsets: Mapping[int, int], wake: Callable[[], None]) -> Waiter:
        waiter = wait(offsets, wake)
        begun.release()
        return waiter

    monkeypatch.setattr(watch, "wait", wait_and_tell)
    stream = asyncio.ensure_future(client.stream(stream_limit=1))
    for _ in range(3):
        await begun.acquire()
        watch.wake_all()
    await begun.acquire()  # This hub was not started: nothing looks for commits before a wait.
    await asyncio.to_thread(publish, hub, 7)
    await stream
    assert client.body.count(b"\n") == 1
    assert client.has_all


async def test_stop_of_the_hub_ends_the_stream(hub: Hub, client: Client) -> None:
    stream = asyncio.ensure_future(client.stream())
    await waiting(hub)
    hub.drain()
    await stream
    assert client.has_all


async def test_client_that_leaves_during_a_send_is_sent_no_more(hub: Hub, client: Client) -> None:
    hub.log.publish(NAME, [a_new_event({"text": "x" * 200_000}) for _ in range(40)])

    async def slow(message: Message) -> None:
        await client.take(message)
        if message.get("body"):
            client.leaves.set()
            await asyncio.Event().wait()

    client.takes = slow
    await client.stream()
    assert len(client.body) < 1_000_000
    assert not client.has_all
