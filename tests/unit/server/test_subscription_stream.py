"""Sending of a subscription's stream: to a slow consumer, and while the lease of its hub is over."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.core.events.event import NewEvent
from penstock.core.subscriptions.delivery import DeliveryRules
from penstock.errors import DatabaseUnavailable
from penstock.hub.hub import Hub
from penstock.hub.subscriptions.sessions import DELETED, LEASE_EXPIRED, LEASE_SECONDS
from penstock.server.http import streaming as waiting
from penstock.server.http.streaming import PIECES_AHEAD
from penstock.server.state import State
from penstock.server.subscriptions import stream as subscription_stream
from penstock.server.subscriptions.stream import SEND_TIMEOUT, SubscriptionResponse
from penstock.server.telemetry import AccessLine
from penstock.storage import Store, open_store
from penstock.wire.log.nakadi import PART_BYTES as PIECE_BYTES
from tests.unit.hub.feeds import NAME
from tests.unit.hub.subscribing import P, Played, lose_hub, subscribed

pytestmark = pytest.mark.anyio
Message = dict[str, Any]
EVENTS = 10
"""Each makes a piece of its own: more than are made ahead."""
RULES = {"max_uncommitted": 100, "batch_limit": 1, "flush_timeout": 30, "commit_timeout": 60, "bytes_max": 1 << 27}


class Scene:
    """A hub whose lease and clock tests move, another hub, and a client with limited room."""

    def __init__(self, store: Store) -> None:
        self.lease_now = 1_000.0
        self.now = time.monotonic()
        self.sub = subscribed(store, partitions=1)
        self.hub = Hub(store)
        self.lease = self.hub.subscriptions.lease
        self.lease._monotonic = lambda: self.lease_now
        self.other = Played(store, "other")
        self.store = store
        self.got: list[Message] = []
        self.looks = 0
        """How often the stream has asked if its client is still wanted."""
        self.rules = DeliveryRules(**RULES)  # type: ignore[arg-type]
        for number in range(EVENTS):
            self.hub.log.publish(
                NAME, [NewEvent.of(b'{"n":%d,"pad":"%s"}' % (number, b"x" * PIECE_BYTES), partition=0)]
            )

    async def begin(self, *, room: int = 1) -> None:
        """Send the client a stream, of which it takes *room* pieces."""
        self.access = AccessLine({"method": "GET", "path": "/"}, None, "flow")  # type: ignore[arg-type]
        self.state = State(lambda: self.hub)
        await self.state.start()
        self.stream = self.hub.subscriptions.streams.open(self.sub, frozenset(), self.rules)
        self.stream._clock = lambda: self.now
        self._interrupted, self.stream.find_interruption = self.stream.find_interruption, self._look  # type: ignore[method-assign]
        self.gone, self.more = asyncio.Event(), asyncio.Event()
        self.room = room
        answer = SubscriptionResponse(self.stream, self.state, self.access, encoding=None)
        self.sending = asyncio.ensure_future(answer({"type": "http"}, self._receive, self._take))  # type: ignore[arg-type]

    def _look(self) -> str | None:
        self.looks += 1
        return self._interrupted()

    async def _receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _take(self, message: Any) -> None:
        while self.pieces >= self.room:  # As servers do: whatever it is, it waits for room first.
            self.more.clear()
            await self.more.wait()
        self.got.append(dict(message))

    def make_room(self, room: int) -> None:
        self.room = room
        self.more.set()

    @property
    def pieces(self) -> int:
        """How many the client has."""
        return sum(b'"events"' in each.get("body", b"") for each in self.got)

    async def settle(self) -> None:
        """Return once the client has as much as it has room for, or the stream has ended, and nothing more comes."""
        await until(lambda: self.sending.done() or self.pieces >= min(self.room, EVENTS))
        await asyncio.sleep(0.1)

    async def look(self) -> None:
        """Return once the stream has asked twice more if its client is wanted, so once from now on."""
        looks = self.looks
        await until(lambda: self.sending.done() or self.looks > looks + 1)

    def lapse(self, *, taken: bool = False) -> None:
        """Let the hub's lease end and be renewed; another hub may have *taken* the partition meanwhile."""
        self.lease_now += LEASE_SECONDS
        if taken:
            lose_hub(self.store.url, self.lease._hub_id)
            self.other.stream(self.sub, P)
        self.lease.renew()

    def delete(self) -> None:
        """Delete the subscription."""
        with self.store.write() as tx:
            tx.groups.delete(self.sub)
        self.hub.subscriptions.local_streams.notify_changed(self.sub)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing signals what is waited for
        await asyncio.sleep(0.005)


@pytest.fixture
async def scene(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    store = open_store(sqlite_url)
    store.migrate()
    found = Scene(store)
    monkeypatch.setattr(waiting, "REFRESH_INTERVAL", 0.05)
    monkeypatch.setattr(subscription_stream, "RETRY_INTERVAL", 0.02)
    monkeypatch.setattr(subscription_stream, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(subscription_stream, "GATHER_BYTES", PIECE_BYTES)
    monkeypatch.setattr(subscription_stream, "time", SimpleNamespace(monotonic=lambda: found.now))
    yield found
    found.gone.set()
    await found.sending
    found.other.stop()
    found.hub.stop()


async def test_client_is_sent_as_many_pieces_as_it_has_room_for(scene: Scene) -> None:
    await scene.begin()
    for room in (1, 2, 5, EVENTS):
        scene.make_room(room)
        await scene.settle()
        assert scene.pieces == room
    assert scene.access.events == EVENTS


async def test_stream_waits_a_moment_after_its_headers(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some clients lose what comes together with the headers."""
    monkeypatch.setattr(subscription_stream, "FIRST_SECONDS", 300)
    await scene.begin()
    await until(lambda: len(scene.got) == 2)
    await asyncio.sleep(0.1)
    assert [each.get("body") for each in scene.got] == [None, b""]


async def test_piece_is_withheld_once_another_hub_has_the_partition(scene: Scene) -> None:
    """One piece waits for room, and others are made already, when the hub is cut off for longer than its lease."""
    await scene.begin()
    await scene.settle()
    scene.lapse(taken=True)
    scene.make_room(EVENTS)
    await scene.settle()
    assert scene.pieces == 1
    assert (scene.sending.done(), scene.stream.reason) == (True, LEASE_EXPIRED)
    assert scene.access.refusal["reason"] == LEASE_EXPIRED


async def test_pieces_are_sent_once_the_lease_holds_again_and_nobody_has_taken_over(scene: Scene) -> None:
    await scene.begin()
    await scene.settle()
    for room in (PIECES_AHEAD + 2, EVENTS):
        scene.lapse()
        scene.make_room(room)
        await scene.settle()
        assert scene.pieces == room


async def test_pieces_wait_while_the_lease_is_over(scene: Scene) -> None:
    await scene.begin()
    await scene.settle()
    scene.lease_now += LEASE_SECONDS
    scene.make_room(EVENTS)
    await asyncio.sleep(0.3)
    assert (scene.pieces, scene.sending.done()) == (1, False)
    scene.lease.renew()
    await scene.settle()
    assert scene.pieces == EVENTS


async def test_pieces_wait_while_the_database_is_away(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise DatabaseUnavailable(reason="away", retry_after=1)

    await scene.begin()
    await scene.settle()
    scene.lapse()
    with monkeypatch.context() as patched:
        patched.setattr(scene.hub.subscriptions.sessions, "snapshot", away)
        scene.make_room(EVENTS)
        await asyncio.sleep(0.3)
        assert (scene.pieces, scene.sending.done()) == (1, False)
    await scene.settle()
    assert scene.pieces == EVENTS


async def test_reason_of_the_end_is_sent_though_the_lease_is_uncertain(scene: Scene) -> None:
    await scene.begin(room=EVENTS + 1)
    await scene.settle()
    scene.lapse()
    scene.delete()
    await until(scene.sending.done)
    assert DELETED.encode() in scene.got[-2]["body"]
    assert scene.got[-1]["more_body"] is False


async def test_slow_client_is_cut_off_when_the_subscription_is_deleted(scene: Scene) -> None:
    await scene.begin()
    await scene.settle()
    scene.delete()
    await until(scene.sending.done)
    assert (scene.pieces, scene.stream.reason) == (1, DELETED)


async def test_client_that_takes_nothing_is_cut_off_after_the_time_for_a_piece(scene: Scene) -> None:
    scene.rules = DeliveryRules(**RULES | {"commit_timeout": 1})  # type: ignore[arg-type]
    await scene.begin()
    await scene.settle()
    scene.now += SEND_TIMEOUT - 1
    await scene.look()
    assert not scene.sending.done()
    scene.now += 1
    await until(scene.sending.done)
    assert scene.pieces == 1
    assert scene.access.refusal["reason"] == "the consumer takes nothing"


async def test_client_that_commits_is_cut_off_only_after_its_commit_timeout(scene: Scene) -> None:
    await scene.begin()
    await scene.settle()
    for _ in range(3):
        scene.stream.note_committed({P: 1})
        scene.now += RULES["commit_timeout"] - 1
        await scene.look()
        assert not scene.sending.done()
    scene.now += 1
    await until(scene.sending.done)
