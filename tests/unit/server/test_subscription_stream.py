"""What a consumer is sent, and what is held back from it: it is slow, or the lease of its hub was over meanwhile."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.core.event import NewEvent
from penstock.core.stream_rules import Rules
from penstock.errors import DatabaseUnavailable
from penstock.hub.hub import Hub
from penstock.hub.look import LEASE_S
from penstock.hub.reasons import DELETED, TIME_OVER
from penstock.server import subscription_stream, waiting
from penstock.server.access import Access
from penstock.server.ahead import PIECES_AHEAD
from penstock.server.state import State
from penstock.server.subscription_stream import SubscriptionStream
from penstock.storage import Store, open_store
from penstock.wire.nakadi_stream import PART_BYTES
from tests.unit.hub.feeds import NAME
from tests.unit.hub.subscribing import P, Played, lose_hub, subscribed

Message = dict[str, Any]
PIECE_BYTES = PART_BYTES
EVENTS = 10
"""Each makes a piece of its own: more than are made ahead."""
RULES = {"max_uncommitted": 100, "batch_limit": 1, "flush_s": 30, "commit_s": 60, "bytes_max": 1 << 27}


class Scene:
    """A hub whose lease goes on by hand, another one, and a client that takes what it has room for."""

    def __init__(self, store: Store) -> None:
        self.now = 1_000.0
        self.sub = subscribed(store, partitions=1)
        self.hub = Hub(store)
        self.live = self.hub.streams.live
        self.live._monotonic = lambda: self.now
        self.other = Played(store, "other")
        self.store = store
        self.got: list[Message] = []
        self.times: list[float] = []
        """When each of these came."""
        self.rules = Rules(**RULES)  # type: ignore[arg-type]
        for number in range(EVENTS):
            self.hub.publish(NAME, [NewEvent.of(b'{"n":%d,"pad":"%s"}' % (number, b"x" * PIECE_BYTES), partition=0)])

    async def begin(self, *, room: int) -> None:
        """Have the client be sent a stream, of which it takes so many pieces, and return when no more moves."""
        self.access = Access({"method": "GET", "path": "/"}, None, "flow")  # type: ignore[arg-type]
        self.state = State(lambda: self.hub)
        await self.state.start()
        self.stream = self.hub.streams.open(self.sub, frozenset(), self.rules, self.hub.watch())
        self.gone, self.more = asyncio.Event(), asyncio.Event()
        self.room = room
        answer = SubscriptionStream(self.stream, self.state, self.access, encoding=None)
        self.sending = asyncio.ensure_future(answer({"type": "http"}, self._receive, self._take))  # type: ignore[arg-type]
        await self.settle()

    async def _receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _take(self, message: Any) -> None:
        while self.pieces >= self.room:  # As servers do: whatever it is, it waits for room first.
            self.more.clear()
            await self.more.wait()
        self.got.append(dict(message))
        self.times.append(time.monotonic())

    def make_room(self, room: int) -> None:
        self.room = room
        self.more.set()

    @property
    def pieces(self) -> int:
        """How many it has got."""
        return sum(b'"events"' in each.get("body", b"") for each in self.got)

    async def settle(self) -> None:
        """Return when it has got as much as it has room for, or when nothing comes any more."""
        for _ in range(1_000):
            if self.sending.done() or self.pieces >= min(self.room, EVENTS):
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)

    async def end(self) -> None:
        self.gone.set()
        await asyncio.wait_for(self.sending, 30)

    def lapse(self, *, taken: bool = False) -> None:
        """Let the hub's lease be over, and begin anew; another hub may have *taken* the partition meanwhile."""
        self.now += LEASE_S
        if taken:
            lose_hub(self.store.url, self.hub_id)
            self.other.stream(self.sub, P)
        self.live.renew()

    @property
    def hub_id(self) -> str:
        return self.live._hub_id


@pytest.fixture
def scene(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(waiting, "LOOK_S", 0.1)
    monkeypatch.setattr(subscription_stream, "RETRY_S", 0.02)
    monkeypatch.setattr(subscription_stream, "GATHER_BYTES", PIECE_BYTES)
    store = open_store(sqlite_url)
    store.migrate()
    found = Scene(store)
    yield found
    found.other.stop()
    found.hub.stop()


def play(scene: Scene, act: Callable[[], Any], *, room: int = 1) -> None:
    """Have a client that takes so many pieces at first, and do the rest."""

    async def main() -> None:
        await scene.begin(room=room)
        assert scene.pieces == min(room, EVENTS)
        await act()
        await scene.end()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_client_is_sent_what_it_has_room_for(scene: Scene) -> None:
    async def act() -> None:
        for room in (2, 5, EVENTS):
            scene.make_room(room)
            await scene.settle()
            assert scene.pieces == room
        assert scene.access.events == EVENTS

    play(scene, act)


def test_a_stream_begins_a_moment_after_its_headers(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some clients lose what comes together with these."""
    monkeypatch.setattr(subscription_stream, "FIRST_S", 0.3)

    async def act() -> None:
        first = next(at for at, each in zip(scene.times, scene.got, strict=True) if each.get("body"))
        assert first - scene.times[0] >= 0.29

    play(scene, act)


def test_nothing_that_was_made_is_sent_once_others_have_had_it(scene: Scene) -> None:
    """One piece waits for room, and others are made by then, when the hub is cut off for longer than its lease."""

    async def act() -> None:
        scene.lapse(taken=True)
        scene.make_room(EVENTS)
        await scene.settle()
        assert scene.pieces == 1
        assert (scene.sending.done(), scene.stream.reason) == (True, TIME_OVER)
        assert scene.access.refusal["reason"] == TIME_OVER

    play(scene, act)


def test_all_that_was_made_is_sent_once_it_is_known_that_nobody_has_had_it(scene: Scene) -> None:
    async def act() -> None:
        scene.lapse()
        scene.make_room(PIECES_AHEAD + 2)
        await scene.settle()
        assert scene.pieces == PIECES_AHEAD + 2
        scene.lapse()
        scene.make_room(EVENTS)
        await scene.settle()
        assert scene.pieces == EVENTS

    play(scene, act)


def test_all_waits_while_the_lease_is_over(scene: Scene) -> None:
    async def act() -> None:
        scene.now += LEASE_S
        scene.make_room(EVENTS)
        await asyncio.sleep(1)
        assert (scene.pieces, scene.sending.done()) == (1, False)
        scene.live.renew()
        await scene.settle()
        assert scene.pieces == EVENTS

    play(scene, act)


def test_all_waits_while_nobody_can_be_asked(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise DatabaseUnavailable(reason="away", retry_after=1)

    async def act() -> None:
        scene.lapse()
        with monkeypatch.context() as patched:
            patched.setattr(scene.hub.streams.sessions, "look", away)
            scene.make_room(EVENTS)
            await asyncio.sleep(0.5)
            assert (scene.pieces, scene.sending.done()) == (1, False)
        await scene.settle()
        assert scene.pieces == EVENTS

    play(scene, act)


def test_it_hears_why_it_ends_though_nobody_knows_who_has_its_partitions(scene: Scene) -> None:
    async def act() -> None:
        scene.lapse()
        with scene.store.write() as tx:
            tx.subscriptions.delete(scene.sub)
        scene.live.changed(scene.sub)
        await scene.settle()
        assert scene.sending.done()
        assert DELETED.encode() in scene.got[-2]["body"]
        assert scene.got[-1]["more_body"] is False

    play(scene, act, room=EVENTS + 1)


def test_it_is_cut_off_from_what_it_does_not_take_when_the_subscription_goes(scene: Scene) -> None:
    async def act() -> None:
        with scene.store.write() as tx:
            tx.subscriptions.delete(scene.sub)
        scene.live.changed(scene.sub)
        await scene.settle()
        assert (scene.pieces, scene.sending.done(), scene.stream.reason) == (1, True, DELETED)

    play(scene, act)


def test_it_is_cut_off_where_it_takes_nothing_for_too_long(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_stream, "STUCK_S", 0.3)
    scene.rules = Rules(**RULES | {"commit_s": 0.3})  # type: ignore[arg-type]

    async def act() -> None:
        await asyncio.sleep(1)
        assert (scene.pieces, scene.sending.done()) == (1, True)
        assert scene.access.refusal["reason"] == "the consumer takes nothing"

    play(scene, act)


def test_it_is_left_some_time_though_it_has_less_to_commit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_stream, "STUCK_S", 60)
    scene.rules = Rules(**RULES | {"commit_s": 0.3})  # type: ignore[arg-type]

    async def act() -> None:
        await asyncio.sleep(1)
        assert not scene.sending.done()

    play(scene, act)


def test_one_that_commits_is_left_all_the_time_that_it_has(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_stream, "STUCK_S", 0.3)
    scene.rules = Rules(**RULES | {"commit_s": 0.8})  # type: ignore[arg-type]

    async def act() -> None:
        for _ in range(6):
            scene.stream.committed({P: 1})
            await asyncio.sleep(0.3)
        assert not scene.sending.done()
        await asyncio.sleep(1.5)
        assert scene.sending.done()

    play(scene, act)
