import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import pytest

from penstock.core.assignment import Place
from penstock.errors import DatabaseUnavailable
from penstock.hub import live as living
from penstock.hub.commits import Moved
from penstock.hub.live import MARGIN_S, RENEW_S, Live
from penstock.hub.look import LEASE_S
from penstock.storage import Store
from penstock.storage.store import Tx
from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.subscribing import P, Q, open_stream, sessions_of, subscribe, subscribed


class Noting:
    """A stream that notes what it is told."""

    def __init__(self, subscription_id: str, session_id: str = "stream") -> None:
        self.session_id = session_id
        self.subscription_id = subscription_id
        self.heard: list[Any] = []

    def committed(self, offsets: Mapping[Place, int]) -> None:
        self.heard.append(dict(offsets))

    def changed(self) -> None:
        self.heard.append("look")

    def was_sent(self, place: Place, position: int) -> bool:
        return place == P and position <= 7


class Scene:
    """The streams of one hub, and a clock that goes on by hand."""

    def __init__(self, store: Store) -> None:
        self.now = 1_000.0
        self.store = ForwardingStore(store)
        self.sub = subscribed(store)
        self.swept: list[list[str]] = []
        self.live = Live(self.store, self.swept.append, "hub", lambda: self.now)

    def revise(self, sub: str | None = None) -> int:
        """Change a subscription, as any hub does."""
        with self.store.write() as tx:
            return tx.subscriptions.revise(sub or self.sub)

    def look(self) -> bool:
        with self.store.read() as tx:
            return self.live.look(tx)

    def joined(self, session_id: str = "stream", sub: str | None = None) -> Noting:
        found = Noting(sub or self.sub, session_id)
        self.live.join(found, 0)
        return found


@pytest.fixture
def scene(store: Store) -> Iterator[Scene]:
    scene = Scene(store)
    yield scene
    scene.live.stop(60)


# What streams hear


def test_what_others_have_changed_is_looked_for_once(scene: Scene) -> None:
    stream = scene.joined()
    assert not scene.look()

    scene.revise()

    assert scene.look()
    assert not scene.look()
    assert stream.heard == ["look"]


def test_an_own_commit_alone_causes_no_look(scene: Scene) -> None:
    stream = scene.joined()

    for n in (1, 2):
        scene.live.moved(Moved(scene.sub, scene.revise(), {P: n}, shared_out=False))

    assert not scene.look()
    assert stream.heard == [{P: 1}, {P: 2}]


def test_what_others_have_done_between_two_commits_is_looked_at(scene: Scene) -> None:
    stream = scene.joined()
    scene.live.moved(Moved(scene.sub, scene.revise(), {P: 1}, shared_out=False))
    scene.revise()
    scene.live.moved(Moved(scene.sub, scene.revise(), {P: 2}, shared_out=False))

    assert scene.look()
    assert not scene.look()
    assert stream.heard == [{P: 1}, {P: 2}, "look"]


def test_an_own_commit_in_the_midst_of_a_look_causes_no_other(scene: Scene) -> None:
    """What was found is older than what its streams have heard by then."""
    stream = scene.joined()

    class Between:
        """Answers, and while the answer is on its way the hub commits."""

        def __init__(self, tx: Tx) -> None:
            self.subscriptions = self
            self._tx = tx

        def revisions(self, known: Collection[str]) -> Mapping[str, int]:
            for n in (1, 2):
                scene.live.moved(Moved(scene.sub, scene.revise(), {P: n}, shared_out=False))
            return {scene.sub: 1} if known else {}

    with scene.store.read() as tx:
        assert not scene.live.look(cast(Tx, Between(tx)))

    assert not scene.look()
    assert stream.heard == [{P: 1}, {P: 2}]


def test_a_commit_by_which_partitions_change_hands_is_looked_at_at_once(scene: Scene) -> None:
    stream = scene.joined()

    scene.live.moved(Moved(scene.sub, scene.revise(), {Q: 3}, shared_out=True))

    assert stream.heard == [{Q: 3}, "look"]


def test_streams_hear_of_their_own_subscription_alone(scene: Scene) -> None:
    other = subscribe(scene.store, "other")
    first, second, theirs = scene.joined(), scene.joined("second"), scene.joined("theirs", other)
    scene.live.moved(Moved(other, scene.revise(other), {P: 1}, shared_out=False))
    scene.live.changed(scene.sub)
    scene.live.changed("nobody")
    scene.live.moved(Moved("nobody", 7, {P: 1}, shared_out=True))

    assert (first.heard, second.heard, theirs.heard) == (["look"], ["look"], [{P: 1}])
    scene.revise()
    scene.look()
    assert (first.heard, second.heard, theirs.heard) == (["look"] * 2, ["look"] * 2, [{P: 1}])


def test_one_that_has_begun_before_a_change_and_joins_after_it_hears_of_it(scene: Scene) -> None:
    early = Noting(scene.sub, "early")
    scene.live.join(early, scene.revise())
    assert not scene.look()

    late = scene.joined("late")

    assert scene.look()
    assert late.heard == ["look"]


def test_streams_of_one_that_was_deleted_look_once(scene: Scene) -> None:
    stream = scene.joined()
    with scene.store.write() as tx:
        tx.subscriptions.delete(scene.sub)

    assert scene.look()
    assert not scene.look()
    assert stream.heard == ["look"]


def test_who_has_left_hears_nothing_and_nothing_is_asked_for_nobody(scene: Scene) -> None:
    first, second = scene.joined("first"), scene.joined("second")
    assert scene.live.streams == 2
    scene.live.leave(first)
    scene.live.leave(first)
    scene.revise()
    assert scene.look()
    assert (first.heard, second.heard) == ([], ["look"])

    scene.live.leave(second)

    assert scene.live.streams == 0
    assert scene.live.look(None) is False


def test_all_subscriptions_are_looked_at_in_one_query(scene: Scene) -> None:
    for n in range(9):
        scene.joined(f"stream {n}", subscribe(scene.store, f"group {n}"))
    asked: list[object] = []

    class Asked:
        class subscriptions:  # noqa: N801
            @staticmethod
            def revisions(ids: Mapping[str, int]) -> dict[str, int]:
                asked.append(ids)
                return dict.fromkeys(ids, 1)

    assert scene.live.look(Asked)
    assert len(asked) == 1


def test_it_is_known_what_streams_of_this_hub_were_sent(scene: Scene) -> None:
    scene.joined()

    assert [scene.live.was_sent("stream", P, each) for each in (7, 8)] == [True, False]
    assert scene.live.was_sent("another", P, 1) is None


# The lease


def test_the_lease_holds_for_less_long_than_others_think(scene: Scene) -> None:
    assert not scene.live.holds
    scene.live.renew()

    for after, holds in ((0.0, True), (LEASE_S - MARGIN_S - 0.001, True), (LEASE_S - MARGIN_S, False)):
        scene.now = 1_000.0 + after
        assert scene.live.holds is holds


def test_a_lease_lasts_that_holds_until_it_has_been_renewed_the_next_time(scene: Scene) -> None:
    assert not scene.live.lasts
    scene.live.renew()

    for after, lasts in ((0.0, True), (RENEW_S + 0.1, True), (LEASE_S - MARGIN_S - RENEW_S, False)):
        scene.now = 1_000.0 + after
        assert scene.live.holds
        assert scene.live.lasts is lasts


def test_the_lease_holds_from_before_the_database_was_asked(scene: Scene) -> None:
    def slow(_: int) -> None:
        scene.now += 5

    scene.store.at_write = slow

    scene.live.renew()

    scene.now += LEASE_S - MARGIN_S - 5 - 0.001
    assert scene.live.holds
    scene.now += 0.001
    assert not scene.live.holds


def test_a_renewal_that_comes_late_shortens_no_lease(scene: Scene) -> None:
    """Of two threads that renew it, the one that has asked first may hear last."""
    scene.live.renew()
    scene.now += 3

    def overtaken(_: int) -> None:
        scene.store.at_write = lambda _: None
        scene.now += 2
        scene.live.renew()

    scene.store.at_write = overtaken

    scene.live.renew()

    scene.now += LEASE_S - MARGIN_S - 0.001
    assert scene.live.holds


def test_a_lease_that_could_not_be_renewed_is_over_in_its_time(scene: Scene) -> None:
    scene.live.renew()
    scene.now += 5

    def away(_: int) -> None:
        raise DatabaseUnavailable(reason="away", retry_after=1)

    scene.store.at_write = away
    with pytest.raises(DatabaseUnavailable):
        scene.live.renew()

    assert scene.live.holds
    scene.now += LEASE_S - MARGIN_S - 5
    assert not scene.live.holds


def test_once_a_lease_was_over_streams_look_before_they_go_on(scene: Scene) -> None:
    stream = scene.joined()
    scene.live.renew()
    stream.heard.clear()
    scene.now += LEASE_S / 2
    scene.live.renew()
    assert stream.heard == []

    scene.now += LEASE_S
    scene.live.renew()

    assert stream.heard == ["look"]


def test_a_lease_does_not_hold_again_before_streams_know_that_it_was_over(scene: Scene) -> None:
    """Else one would be sent something in between that others have been sent."""
    stream = scene.joined()
    scene.live.renew()
    scene.now += LEASE_S
    known: list[tuple[bool, int]] = []
    stream.changed = lambda: known.append((scene.live.holds, scene.live.lapses))  # type: ignore[method-assign]

    scene.live.renew()

    assert known == [(False, 2)]
    assert scene.live.holds


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RENEW_S", "SWEEP_S"):
        monkeypatch.setattr(living, name, 0.001)


class Times:
    """Notes what is done in the background, and lets a test wait for it."""

    def __init__(self) -> None:
        self.count = 0
        self._more = threading.Condition()

    def __call__(self, *_: object) -> None:
        with self._more:
            self.count += 1
            self._more.notify_all()

    def await_number(self, number: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: self.count >= number, 60), f"{self.count} times alone"


class Rounds(threading.Event):
    """What a hub's threads wait for between two rounds; it counts those of the lease."""

    def __init__(self) -> None:
        super().__init__()
        self.of_lease = Times()

    def wait(self, timeout: float | None = None) -> bool:
        if threading.current_thread().name == "penstock-lease":
            self.of_lease()
        return super().wait(timeout)


def go_round(live: Live) -> None:
    """Wait until the thread that tidies has come by."""
    live.close_later(closed := Times())
    closed.await_number(1)


def await_renewal(written: Times) -> None:
    """Wait until the lease was renewed, and that from now on: the next write may have begun already."""
    written.await_number(written.count + 3)


def test_the_lease_is_renewed_while_there_are_streams(scene: Scene, quick: None) -> None:
    scene.live._stopping = rounds = Rounds()
    scene.store.at_write = written = Times()
    stream = scene.joined()
    scene.live.renew()

    for _ in range(3):
        scene.now += LEASE_S / 2
        await_renewal(written)
        assert scene.live.holds
    scene.live.leave(stream)
    rounds.of_lease.await_number(rounds.of_lease.count + 2)
    before = written.count
    rounds.of_lease.await_number(rounds.of_lease.count + 3)

    assert written.count == before


def test_the_lease_is_renewed_while_tidying_hangs(scene: Scene, quick: None) -> None:
    """To share out anew what streams have left, it waits for whoever has locked their subscription."""
    hanging, freed = threading.Event(), threading.Event()

    def hang(_: list[str]) -> None:
        hanging.set()
        assert freed.wait(300)

    live = Live(scene.store, hang, "hub", lambda: scene.now)
    live.join(Noting(scene.sub), 0)
    live.renew()
    assert hanging.wait(300)
    scene.store.at_write = written = Times()

    for _ in range(3):
        scene.now += LEASE_S / 2
        await_renewal(written)
        assert live.holds
    freed.set()
    assert live.stop(60)


def test_a_renewal_that_fails_is_tried_again(scene: Scene, quick: None) -> None:
    written = Times()

    def away(number: int) -> None:
        if 1 < number < 5:
            raise DatabaseUnavailable(reason="away", retry_after=1)
        written()

    scene.store.at_write = away
    scene.joined()
    scene.live.renew()
    scene.now += LEASE_S / 2
    await_renewal(written)

    scene.now += LEASE_S / 2
    assert scene.live.holds


def test_it_is_swept_for_the_subscriptions_that_are_streamed_here(scene: Scene, quick: None) -> None:
    swept = Times()
    scene.swept = _Calling(swept)
    live = Live(scene.store, scene.swept.append, "hub", lambda: scene.now)
    live.join(Noting(scene.sub), 0)
    live.renew()

    swept.await_number(2)

    assert scene.swept[0] == [scene.sub]
    assert live.stop(60)


def test_a_stream_of_this_hub_that_nobody_sends_is_ended(
    scene: Scene, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection broke while its opening was committed, which got through all the same."""
    monkeypatch.setattr(living, "ORPHAN_ROUNDS", 1)
    orphan, other = (open_stream(sessions_of(scene.store, hub), scene.sub).session.id for hub in ("hub", "other hub"))
    known = open_stream(sessions_of(scene.store, "hub"), subscribe(scene.store, "third")).session.id
    ended: list[tuple[str, str]] = []
    done = Times()

    def end(subscription_id: str, session_id: str) -> None:
        ended.append((subscription_id, session_id))
        done()

    live = Live(scene.store, scene.swept.append, "hub", lambda: scene.now, end)
    live.join(Noting(scene.sub, known), 0)
    live.renew()

    done.await_number(2)
    assert live.stop(60)

    assert set(ended) == {(scene.sub, orphan)}
    assert other not in {session_id for _, session_id in ended}


def test_a_stream_that_is_just_about_to_begin_is_not_taken_for_one_that_nobody_sends(
    either_store: Store, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(living, "ORPHAN_ROUNDS", 1)
    scene, looked = Scene(either_store), Times()
    opening = open_stream(sessions_of(scene.store, "hub"), scene.sub).session.id
    ended: list[tuple[str, str]] = []
    live = Live(scene.store, scene.swept.append, "hub", lambda: scene.now, lambda *each: ended.append(each))
    stream = Noting(scene.sub, opening)

    def begin(number: int) -> None:
        if number == 2:  # The first look has found it, and nobody sent it yet.
            live.join(stream, 0)
        looked()

    scene.store.at_read = begin
    live.renew()
    looked.await_number(4)
    assert ended == []

    live.leave(stream)
    looked.await_number(looked.count + 4)
    assert live.stop(60)
    assert set(ended) == {(scene.sub, opening)}


def test_what_could_not_be_closed_is_closed_later_and_holds_up_nobody(scene: Scene, quick: None) -> None:
    done: list[str] = []
    first = Times()
    tries = 0

    def close() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise DatabaseUnavailable(reason="away", retry_after=1)
        done.append("first")
        first()

    scene.live.close_later(close)
    scene.live.close_later(lambda: done.append("second"))
    first.await_number(1)

    assert (done, tries) == (["second", "first"], 3)


def test_whatever_fails_the_lease_is_kept_up(scene: Scene, quick: None) -> None:
    def fail(_: list[str]) -> None:
        raise ZeroDivisionError

    live = Live(scene.store, fail, "hub", lambda: scene.now)
    live.join(Noting(scene.sub), 0)
    live.renew()
    scene.store.at_write = written = Times()

    for _ in range(3):
        scene.now += LEASE_S / 2
        go_round(live)
        await_renewal(written)
        assert live.holds
    assert live.stop(60)


class _Calling(list[list[str]]):
    """A list that tells of what is appended."""

    def __init__(self, call: Times) -> None:
        super().__init__()
        self._call = call

    def append(self, each: list[str]) -> None:
        super().append(each)
        self._call()
