"""A hub's lease: streams are sent only while it holds, and hear of all that others change."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast

import pytest

from penstock.core.subscriptions.assignment import FeedPartition
from penstock.errors import DatabaseUnavailable
from penstock.hub.subscriptions import lease as lease_module
from penstock.hub.subscriptions.commits import CommitNotice
from penstock.hub.subscriptions.lease import MARGIN_SECONDS, RENEW_INTERVAL, HubLease
from penstock.hub.subscriptions.local_streams import LocalStreams
from penstock.hub.subscriptions.sessions import (
    LEASE_EXPIRED,
    LEASE_SECONDS,
    LEASE_US,
    RELEASED,
    REPARTITIONED,
    RESETTING,
    SubscriptionSnapshot,
    can_commit,
    has_lapsed,
    holds_partitions,
    is_ending,
    is_live,
)
from penstock.storage import Store
from penstock.storage.store import Tx
from penstock.storage.subscriptions import StoredSession, StoredSlot, StoredSubscription
from tests.unit.hub.forwarding import ForwardingStore, fail, fail_at
from tests.unit.hub.subscribing import P, Q, open_stream, sessions_of, subscribe, subscribed


class Noting:
    """A stream that notes what it hears."""

    def __init__(self, subscription_id: str, session_id: str = "stream") -> None:
        self.session_id = session_id
        self.subscription_id = subscription_id
        self.heard: list[Any] = []

    def note_committed(self, offsets: Mapping[FeedPartition, int]) -> None:
        self.heard.append(dict(offsets))

    def note_changed(self) -> None:
        self.heard.append("look")

    def has_sent(self, place: FeedPartition, position: int) -> bool:
        return place == P and position <= 7


class Scene:
    """The streams of one hub, and a clock that goes on by hand."""

    def __init__(self, store: Store) -> None:
        self.now = 1_000.0
        self.store = ForwardingStore(store)
        self.sub = subscribed(store)
        self.streams = LocalStreams()
        self.lease = self.make_lease(lambda _: None)

    def make_lease(
        self, sweep: Callable[[Collection[str]], None], end: Callable[[str, str], None] = lambda *_: None
    ) -> HubLease:
        return HubLease(self.store, self.streams, "hub", sweep=sweep, end=end, monotonic=lambda: self.now)

    def revise(self, sub: str | None = None) -> int:
        """Change a subscription, as any hub does."""
        with self.store.write() as tx:
            return tx.subscriptions.revise(sub or self.sub)

    def commit(
        self, position: int, place: FeedPartition = P, sub: str | None = None, *, is_reassigned: bool = False
    ) -> None:
        """Commit in this hub."""
        sub = sub or self.sub
        self.streams.notify_committed(
            CommitNotice(sub, self.revise(sub), {place: position}, is_reassigned=is_reassigned)
        )

    def look(self) -> bool:
        with self.store.read() as tx:
            return self.streams.poll(tx)

    def join(self, session_id: str = "stream", sub: str | None = None) -> Noting:
        stream = Noting(sub or self.sub, session_id)
        self.streams.add(stream, 0)
        return stream


@pytest.fixture
def scene(store: Store) -> Iterator[Scene]:
    scene = Scene(store)
    yield scene
    assert scene.lease.stop(300)


# Streams hear of changes


@pytest.mark.parametrize("is_deleted", [False, True], ids=["changed", "deleted"])
def test_change_or_deletion_by_another_hub_is_found_once(scene: Scene, *, is_deleted: bool) -> None:
    stream = scene.join()
    assert not scene.look()

    if is_deleted:
        with scene.store.write() as tx:
            tx.groups.delete(scene.sub)
    else:
        scene.revise()

    assert scene.look()
    assert not scene.look()
    assert stream.heard == ["look"]


def test_own_commits_cause_no_look_and_a_change_between_them_does(scene: Scene) -> None:
    stream = scene.join()
    scene.commit(1)
    scene.commit(2)
    assert not scene.look()
    assert stream.heard == [{P: 1}, {P: 2}]

    scene.revise()
    scene.commit(3)

    assert scene.look()
    assert not scene.look()
    assert stream.heard[2:] == [{P: 3}, "look"]


def test_own_commit_during_a_look_causes_no_other_look(scene: Scene) -> None:
    """The look found an older revision than its streams have heard of by then."""
    stream = scene.join()

    class Between:
        """Answers, and while the answer is on its way the hub commits."""

        subscriptions: Any

        def find_revisions(self, known: Collection[str]) -> Mapping[str, int]:
            for n in (1, 2):
                scene.commit(n)
            return {scene.sub: 1} if known else {}

    tx = Between()
    tx.subscriptions = tx
    assert not scene.streams.poll(cast(Tx, tx))

    assert not scene.look()
    assert stream.heard == [{P: 1}, {P: 2}]


def test_commit_that_hands_over_partitions_causes_a_look_at_once(scene: Scene) -> None:
    stream = scene.join()

    scene.commit(3, Q, is_reassigned=True)

    assert stream.heard == [{Q: 3}, "look"]


def test_streams_hear_of_their_own_subscription_alone(scene: Scene) -> None:
    other = subscribe(scene.store, "other")
    first, second, theirs = scene.join(), scene.join("second"), scene.join("theirs", other)
    scene.commit(1, sub=other)
    scene.streams.notify_changed(scene.sub)
    scene.streams.notify_changed("nobody")
    scene.streams.notify_committed(CommitNotice("nobody", 7, {P: 1}, is_reassigned=True))

    assert (first.heard, second.heard, theirs.heard) == (["look"], ["look"], [{P: 1}])
    scene.revise()
    scene.look()
    assert (first.heard, second.heard, theirs.heard) == (["look"] * 2, ["look"] * 2, [{P: 1}])


def test_stream_that_joins_after_a_change_since_its_begin_hears_of_it(scene: Scene) -> None:
    scene.streams.add(Noting(scene.sub, "early"), scene.revise())
    assert not scene.look()

    late = scene.join("late")

    assert scene.look()
    assert late.heard == ["look"]


def test_stream_that_has_left_hears_nothing_and_causes_no_query(scene: Scene) -> None:
    first, second = scene.join("first"), scene.join("second")
    assert len(scene.streams) == 2
    for _ in range(2):
        scene.streams.remove(first)
    scene.revise()
    assert scene.look()
    assert (first.heard, second.heard) == ([], ["look"])

    scene.streams.remove(second)

    assert len(scene.streams) == 0
    assert scene.streams.poll(cast(Tx, None)) is False


def test_all_subscriptions_are_looked_up_in_one_query(scene: Scene) -> None:
    for n in range(4):
        scene.join(f"stream {n}", subscribe(scene.store, f"group {n}"))
    calls: list[object] = []

    class Asked:
        class subscriptions:  # noqa: N801
            @staticmethod
            def find_revisions(ids: Mapping[str, int]) -> dict[str, int]:
                calls.append(ids)
                return dict.fromkeys(ids, 1)

    assert scene.streams.poll(cast(Tx, Asked))
    assert len(calls) == 1


def test_positions_sent_to_streams_of_this_hub_are_known(scene: Scene) -> None:
    scene.join()

    assert [scene.streams.has_sent("stream", P, each) for each in (7, 8)] == [True, False]
    assert scene.streams.has_sent("another", P, 1) is None


# The lease


def test_lease_holds_less_long_than_other_hubs_assume_and_lasts_if_it_holds_until_its_renewal(scene: Scene) -> None:
    assert not scene.lease.is_valid
    assert not scene.lease.outlasts_renewal
    scene.lease.renew()

    end = LEASE_SECONDS - MARGIN_SECONDS
    for after, is_held, lasts in (
        (0.0, True, True),
        (RENEW_INTERVAL + 0.1, True, True),
        (end - RENEW_INTERVAL, True, False),
        (end - 0.001, True, False),
        (end, False, False),
    ):
        scene.now = 1_000.0 + after
        assert (scene.lease.is_valid, scene.lease.outlasts_renewal) == (is_held, lasts)


def test_lease_begins_before_the_database_is_asked(scene: Scene) -> None:
    def slow(_: int) -> None:
        scene.now += 5

    scene.store.at_write = slow

    scene.lease.renew()

    scene.now += LEASE_SECONDS - MARGIN_SECONDS - 5 - 0.001
    assert scene.lease.is_valid
    scene.now += 0.001
    assert not scene.lease.is_valid


def test_late_renewal_does_not_shorten_the_lease(scene: Scene) -> None:
    """Of two threads that renew it, the one that has asked first may hear last."""
    scene.lease.renew()
    scene.now += 3

    def overtake(_: int) -> None:
        scene.store.at_write = lambda _: None
        scene.now += 2
        scene.lease.renew()

    scene.store.at_write = overtake

    scene.lease.renew()

    scene.now += LEASE_SECONDS - MARGIN_SECONDS - 0.001
    assert scene.lease.is_valid


def test_lease_that_cannot_be_renewed_ends_in_its_time(scene: Scene) -> None:
    scene.lease.renew()
    scene.now += 5

    scene.store.at_write = fail
    with pytest.raises(DatabaseUnavailable):
        scene.lease.renew()

    assert scene.lease.is_valid
    scene.now += LEASE_SECONDS - MARGIN_SECONDS - 5
    assert not scene.lease.is_valid


def test_streams_look_after_a_lapse_and_before_the_lease_holds_again(scene: Scene) -> None:
    """Otherwise a stream would be sent events in between that other streams have been sent."""
    stream = scene.join()
    scene.lease.renew()
    stream.heard.clear()
    scene.now += LEASE_SECONDS / 2
    scene.lease.renew()
    assert stream.heard == []
    scene.now += LEASE_SECONDS
    seen: list[tuple[bool, int]] = []
    stream.note_changed = lambda: seen.append((scene.lease.is_valid, scene.lease.lapses))  # type: ignore[method-assign]

    scene.lease.renew()

    assert seen == [(False, 2)]
    assert scene.lease.is_valid


# In the background


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RENEW_INTERVAL", "SWEEP_INTERVAL"):
        monkeypatch.setattr(lease_module, name, 0.001)
    monkeypatch.setattr(lease_module, "ORPHAN_ROUNDS", 2)


class Calls:
    """Counts calls from the background, and lets a test wait for them."""

    def __init__(self) -> None:
        self.count = 0
        self._more = threading.Condition()

    def __call__(self, *_: object) -> None:
        with self._more:
            self.count += 1
            self._more.notify_all()

    def await_number(self, number: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: self.count >= number, 300), f"only {self.count} calls"

    def await_more(self, more: int) -> None:
        self.await_number(self.count + more)


def await_renewals(scene: Scene, lease: HubLease, renewals: Calls) -> None:
    """Let half a lease pass three times, and wait each time until it was renewed from then on."""
    for _ in range(3):
        scene.now += LEASE_SECONDS / 2
        renewals.await_more(3)  # The next one may have begun before.
        assert lease.is_valid


class Rounds(threading.Event):
    """The event that a hub's threads wait for between two rounds; it counts those of the lease."""

    def __init__(self) -> None:
        super().__init__()
        self.of_lease = Calls()

    def wait(self, timeout: float | None = None) -> bool:
        if threading.current_thread().name == "penstock-lease":
            self.of_lease()
        return super().wait(timeout)


@pytest.mark.usefixtures("quick")
def test_lease_is_renewed_while_there_are_streams(scene: Scene) -> None:
    scene.lease._stopping = rounds = Rounds()
    scene.store.at_write = renewals = Calls()
    stream = scene.join()
    scene.lease.renew()
    await_renewals(scene, scene.lease, renewals)

    scene.streams.remove(stream)
    rounds.of_lease.await_more(2)
    before = renewals.count
    rounds.of_lease.await_more(3)

    assert renewals.count == before


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", ["hangs", "fails"])
def test_lease_is_renewed_while_the_sweep_of_its_subscriptions_hangs_or_fails(scene: Scene, how: str) -> None:
    """Sweeping waits for a hub that has locked the subscription."""
    swept, freed, found = Calls(), threading.Event(), list[Collection[str]]()

    def sweep(subs: Collection[str]) -> None:
        found.append(subs)
        swept()
        if how == "fails":
            raise ZeroDivisionError
        assert freed.wait(300)

    lease = scene.make_lease(sweep)
    scene.streams.add(Noting(scene.sub), 0)
    lease.renew()
    swept.await_number(1)
    scene.store.at_write = renewals = Calls()

    await_renewals(scene, lease, renewals)
    if how == "fails":
        swept.await_more(1)
    freed.set()
    assert lease.stop(300)
    assert found[0] == [scene.sub]


@pytest.mark.usefixtures("quick")
def test_failed_renewal_is_repeated(scene: Scene) -> None:
    renewals = Calls()

    def renew(number: int) -> None:
        fail_at(2, 3, 4)(number)
        renewals()

    scene.store.at_write = renew
    scene.join()
    scene.lease.renew()

    await_renewals(scene, scene.lease, renewals)


@pytest.mark.usefixtures("quick")
def test_session_of_this_hub_without_a_stream_is_ended(scene: Scene) -> None:
    """The connection broke while its opening was committed."""
    orphan, _ = (open_stream(sessions_of(scene.store, hub), scene.sub).session.id for hub in ("hub", "other hub"))
    known = open_stream(sessions_of(scene.store, "hub"), subscribe(scene.store, "third")).session.id
    ended: list[tuple[str, str]] = []
    calls = Calls()

    def end(subscription_id: str, session_id: str) -> None:
        ended.append((subscription_id, session_id))
        calls()

    lease = scene.make_lease(lambda _: None, end)
    scene.streams.add(Noting(scene.sub, known), 0)
    lease.renew()

    calls.await_number(2)
    assert lease.stop(300)

    assert set(ended) == {(scene.sub, orphan)}


@pytest.mark.usefixtures("quick")
def test_session_whose_stream_is_about_to_begin_is_not_ended(scene: Scene) -> None:
    looks = Calls()
    opening = open_stream(sessions_of(scene.store, "hub"), scene.sub).session.id
    ended: list[tuple[str, str]] = []
    lease = scene.make_lease(lambda _: None, lambda *each: ended.append(each))
    stream = Noting(scene.sub, opening)

    def begin(number: int) -> None:
        if number == 2:  # The first look has found it without a stream.
            scene.streams.add(stream, 0)
        looks()

    scene.store.at_read = begin
    lease.renew()
    looks.await_number(4)
    assert ended == []

    scene.streams.remove(stream)
    looks.await_more(4)
    assert lease.stop(300)
    assert set(ended) == {(scene.sub, opening)}


@pytest.mark.usefixtures("quick")
def test_stream_that_cannot_be_closed_is_closed_later_and_delays_no_other(scene: Scene) -> None:
    done: list[str] = []
    first = Calls()

    def close() -> None:
        if not done:
            fail()
        done.append("first")
        first()

    scene.lease.close_later(close)
    scene.lease.close_later(lambda: done.append("second"))
    first.await_number(1)

    assert done == ["second", "first"]


# The state of a stream follows from the lease of its hub

NOW = 10 * LEASE_US


def a_session(**members: Any) -> StoredSession:
    given = dict.fromkeys(StoredSession._fields) | {"id": "a", "commit_ms": 60_000, "seen_at": NOW}
    return StoredSession(**given | members)  # type: ignore[arg-type]


def a_slot(sent: int | None = None) -> StoredSlot:
    return StoredSlot(**dict.fromkeys(StoredSlot._fields) | {"place": P, "owner": "a", "sent": sent})  # type: ignore[arg-type]


def a_look(session: StoredSession, sent: int | None = None, resetting_until: int | None = None) -> SubscriptionSnapshot:
    given = dict.fromkeys(StoredSubscription._fields) | {"id": "s", "resetting_until": resetting_until}
    return SubscriptionSnapshot(StoredSubscription(**given), [a_slot(sent)], [session], (), NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("members", "sent", "states"),
    [
        ({}, None, "live, may commit"),
        ({"seen_at": NOW - LEASE_US + 1}, None, "live, may commit"),
        ({"seen_at": NOW - LEASE_US}, None, "lapsed, may commit"),
        ({"seen_at": NOW - 60_000_000 + 1}, None, "lapsed, may commit"),
        ({"seen_at": NOW - 60_000_000}, None, "may commit"),
        ({"holds_until": NOW + 1}, 5, "holds, may commit"),
        ({"holds_until": NOW}, 5, ""),
        ({"holds_until": NOW}, None, "holds, is ending"),
        ({"holds_until": NOW, "seen_at": NOW - LEASE_US}, None, ""),
    ],
    ids=str,
)
def test_state_of_a_stream_follows_from_its_times(members: dict[str, Any], sent: int | None, states: str) -> None:
    session, slots = a_session(**members), [a_slot(sent)]
    found = {
        "live": is_live(session, NOW),
        "lapsed": has_lapsed(session, NOW),
        "holds": holds_partitions(session, slots, NOW),
        "may commit": can_commit(session, NOW),
        "is ending": is_ending(session, slots, NOW),
    }

    assert {each for each, is_so in found.items() if is_so} == set(filter(None, states.split(", ")))
    is_present = bool({"live", "lapsed", "holds"} & set(states.split(", ")))
    assert list(a_look(session, sent).current_sessions) == ["a"] * is_present


@pytest.mark.parametrize(
    ("look", "known", "reason"),
    [
        (a_look(a_session()), {P}, None),
        (a_look(a_session()), {P, Q}, REPARTITIONED),
        (a_look(a_session(id="b")), {P, Q}, LEASE_EXPIRED),
        (a_look(a_session(holds_until=1)), {P, Q}, RELEASED),
        (a_look(a_session(), resetting_until=NOW + 1), {P, Q}, RESETTING),
        (a_look(a_session(), resetting_until=NOW), {P}, None),
    ],
    ids=["as before", "grown", "gone", "given back", "resetting", "was reset"],
)
def test_snapshot_gives_the_reason_why_a_stream_ends(
    look: SubscriptionSnapshot, known: set[FeedPartition], reason: str | None
) -> None:
    assert look.find_end_reason("a", known) == reason
