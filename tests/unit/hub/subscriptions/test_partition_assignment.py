"""Assignment of partitions to streams, in the database. Its times are the database's, so rows are moved back by SQL."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from penstock.core.registry.event_type import EventType
from penstock.errors import (
    InvalidSubscription,
    PenstockError,
    StreamNotFound,
    SubscriptionBusy,
    SubscriptionNotFound,
)
from penstock.hub.hub import Hub
from penstock.hub.subscriptions.sessions import LEASE_SECONDS, Sessions
from penstock.hub.subscriptions.slots import add_partitions
from penstock.storage import Store, open_store
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.factories import an_event_type
from tests.failing import has_code
from tests.store_contract.database import together
from tests.unit.hub.feeds import NAME, find_feed
from tests.unit.hub.subscribing import (
    P,
    Q,
    an_end,
    let_time_pass,
    lose_hub,
    move,
    open_stream,
    parked_keys_of,
    read_offsets,
    read_owners,
    read_slots,
    sessions_of,
    subscribe,
    subscribed,
)

ROUNDS = 3


@pytest.fixture
def sub(store: Store) -> str:
    """A subscription of two partitions."""
    return subscribed(store)


@pytest.fixture
def sessions(store: Store) -> Sessions:
    return sessions_of(store)


@pytest.fixture
def either_sub(either_store: Store) -> str:
    """A subscription of two partitions, in SQLite and in PostgreSQL in turn."""
    return subscribed(either_store)


def begin(sessions: Sessions, sub: str, *wants: tuple[str, int], **how: Any) -> str:
    """Begin a stream and return its id."""
    return open_stream(sessions, sub, *wants, **how).session.id


def read_heirs(store: Store, sub: str) -> list[tuple[str | None, str | None]]:
    """Return the owner of each partition, and the stream that is to have it next."""
    return [(slot.owner, slot.successor) for slot in read_slots(store, sub)]


# Sharing


def test_second_stream_has_its_share_once_the_first_releases_it(store: Store, sub: str, sessions: Sessions) -> None:
    first = begin(sessions, sub)
    assert read_owners(store, sub) == [first, first]

    second = begin(sessions, sub)
    [moving] = [slot for slot in read_slots(store, sub) if slot.successor]
    assert (read_owners(store, sub), moving.successor) == ([first, first], second)
    sessions.hand_over(sub, first, [moving.place])

    assert sorted(read_heirs(store, sub), key=str) == sorted([(first, None), (second, None)], key=str)
    with pytest.raises(SubscriptionBusy, check=has_code("no-free-slots"), match="Total slots: 2"):
        begin(sessions, sub)
    assert len(sessions.snapshot(sub).sessions) == 2


def test_partition_that_no_other_stream_is_to_have_is_not_released(store: Store, sub: str, sessions: Sessions) -> None:
    first = begin(sessions, sub)
    sessions.hand_over(sub, first, [P, Q])
    sessions.hand_over("nobody", first, [P, Q])
    assert read_owners(store, sub) == [first, first]
    second = begin(sessions, sub, Q)
    sessions.hand_over(sub, "another", [P, Q])
    assert read_owners(store, sub) == [first, first]

    sessions.end(sub, second, an_end())
    assert read_heirs(store, sub) == [(first, None), (first, None)]
    sessions.hand_over(sub, first, [Q])
    assert read_owners(store, sub) == [first, first], "the stream that was to have it has left"


def test_requested_partition_goes_to_its_stream_and_cannot_be_requested_again(
    store: Store, sub: str, sessions: Sessions
) -> None:
    auto = begin(sessions, sub)

    direct = begin(sessions, sub, Q)

    assert read_heirs(store, sub) == [(auto, None), (auto, direct)]
    with pytest.raises(SubscriptionBusy, check=has_code("partitions-taken")) as refused:
        begin(sessions, sub, P, Q)
    assert refused.value.partitions == [{"event_type": NAME, "partition": "1"}]
    sessions.hand_over(sub, auto, [Q])
    sessions.end(sub, direct, an_end())
    assert read_owners(store, sub) == [auto, auto]


@pytest.mark.parametrize("wants", [(("nothing", 0),), (P, (NAME, 2))], ids=["another event type", "one too many"])
def test_stream_of_a_partition_outside_the_subscription_is_refused(
    store: Store, sub: str, sessions: Sessions, wants: tuple[tuple[str, int], ...]
) -> None:
    with pytest.raises(InvalidSubscription, match="the subscription does not read partition "):
        begin(sessions, sub, *wants)

    assert read_slots(store, sub) == [], "it has not begun by that"


def test_added_partitions_begin_at_their_beginning_and_are_shared(store: Store, sub: str, sessions: Sessions) -> None:
    first = begin(sessions, sub)
    move(store, sub, p0=5, p1=6)

    with store.write() as tx:
        feed = find_feed(store)
        tx.registry.update(feed, EventType.parse(an_event_type(NAME, partition_count=4)), START_AT)
        add_partitions(tx, feed, 4, START_AT)
    assert read_offsets(store, sub) == [5, 6, 0, 0]
    assert read_owners(store, sub) == [first, first, None, None]
    second = begin(sessions, sub)

    assert sorted(read_owners(store, sub), key=str) == sorted([first, first, second, second])


@pytest.mark.parametrize("wants", [(), (P,)], ids=["the last slot", "the same partition"])
def test_one_of_two_hubs_gets_the_last_slot(
    either_store: Store, migrated_url: str, wants: tuple[tuple[str, int], ...]
) -> None:
    sub = subscribed(either_store, partitions=1)
    other = open_store(migrated_url)
    racers = [sessions_of(either_store, "one"), sessions_of(other, "two")] * 2

    def race(sessions: Sessions) -> str | None:
        try:
            return begin(sessions, sub, *wants)
        except SubscriptionBusy:
            return None

    for _ in range(ROUNDS):
        winners = [each for each in together(*(partial(race, each) for each in racers)) if each]
        assert len(winners) == 1
        assert read_owners(either_store, sub) == winners
        racers[0].end(sub, winners[0], an_end())
    other.close()


def test_streams_that_come_and_go_at_once_never_share_a_partition(either_store: Store, migrated_url: str) -> None:
    sub = subscribed(either_store, partitions=3)
    other = open_store(migrated_url)
    hubs = [(either_store, sessions_of(either_store, "one")), (other, sessions_of(other, "two"))] * 2

    def come_and_go(store: Store, sessions: Sessions) -> None:
        for _ in range(ROUNDS):
            try:
                own = begin(sessions, sub)
            except SubscriptionBusy:
                continue
            with store.write() as tx:
                tx.subscriptions.find(sub, lock=True)  # Between two statements alone others come and go.
                known = {each.id for each in tx.subscriptions.list_sessions(sub)}
                slots = tx.subscriptions.list_slots(sub)
            assert {slot.owner for slot in slots} <= known, "the owner of a partition is there"
            sessions.hand_over(sub, own, [slot.place for slot in slots])
            sessions.end(sub, own, an_end())

    together(*(partial(come_and_go, *hub) for hub in hubs))
    other.close()

    assert read_owners(either_store, sub) == [None] * 3
    assert sessions_of(either_store).snapshot(sub).sessions == []


# Looking


def test_deleted_subscription_has_no_streams_in_a_list_of_subscriptions(
    store: Store, sub: str, sessions: Sessions
) -> None:
    subscriptions = Hub(store, clock=VirtualClock()).subscriptions
    other = subscribe(store, "other")
    first, second = begin(sessions, sub), begin(sessions, other)
    known = [subscriptions.find(each) for each in (sub, other)]
    assert [each.id for look in sessions.snapshot_assignments(known) for each in look.sessions] == [first, second]

    subscriptions.delete(sub)

    gone, there = sessions.snapshot_assignments(known)
    assert (gone.subscription.id, gone.slots, gone.sessions) == (sub, [], [])
    assert {slot.owner for slot in there.slots} == {second}


def test_stream_whose_time_is_over_has_no_partition_even_before_another_takes_it(
    either_store: Store, either_sub: str, migrated_url: str
) -> None:
    sub, sessions = either_sub, sessions_of(either_store)
    first = begin(sessions, sub, P, commit_timeout=2000)
    second = begin(sessions, sub, Q, commit_timeout=2000)

    def look() -> list[str | None]:
        look = sessions.snapshot(sub, counts=True)
        assert look.slots == sessions.snapshot_assignments([look.subscription])[0].slots
        return [slot.owner if slot.owner in look.current_sessions else None for slot in look.slots]

    assert look() == [first, second]
    sessions.end(sub, second, an_end(hold_seconds=1500, p1=1))
    assert look() == [first, second]
    let_time_pass(migrated_url, 1501)
    assert look() == [first, None]
    lose_hub(migrated_url, seconds=11)
    assert look() == [first, None]
    lose_hub(migrated_url, seconds=1990)
    assert look() == [None, None]
    assert read_owners(either_store, sub) == [first, second]


# Hubs that are gone


def test_partitions_of_a_lost_hub_go_to_a_stream_that_wants_them(
    either_store: Store, either_sub: str, migrated_url: str
) -> None:
    sub, lost, living = either_sub, sessions_of(either_store, "lost"), sessions_of(either_store, "living")
    gone = begin(lost, sub)
    lose_hub(migrated_url, "lost", seconds=LEASE_SECONDS - 9)
    second = begin(living, sub)
    assert read_owners(either_store, sub) == [gone, gone], "it is not gone yet"

    lose_hub(migrated_url, "lost", seconds=9)
    living.sweep([sub])

    assert read_owners(either_store, sub) == [second, second]
    assert [each.id for each in living.snapshot(sub).sessions] == [second]


def test_stream_of_a_lost_hub_keeps_unwanted_partitions_until_its_time_is_over(
    either_store: Store, either_sub: str, migrated_url: str
) -> None:
    sub, living = either_sub, sessions_of(either_store, "living")
    gone = begin(sessions_of(either_store, "lost"), sub, commit_timeout=6000)
    lose_hub(migrated_url, "lost")

    direct = begin(living, sub, Q)
    assert read_owners(either_store, sub) == [gone, direct]
    living.extend(sub, gone)
    let_time_pass(migrated_url, 5000)
    living.sweep([sub])
    assert read_owners(either_store, sub) == [gone, direct]
    let_time_pass(migrated_url, 1000)
    living.sweep([sub])

    assert read_owners(either_store, sub) == [None, direct]
    with pytest.raises(StreamNotFound):
        living.extend(sub, gone)


def test_stream_of_a_lost_hub_takes_no_slot(store: Store) -> None:
    sub = subscribed(store, partitions=1)
    begin(sessions_of(store, "lost"), sub)
    lose_hub(store.url, "lost")

    second = begin(sessions_of(store, "living"), sub)

    assert read_owners(store, sub) == [second]


def test_sweep_changes_nothing_while_all_streams_are_there(sub: str, sessions: Sessions) -> None:
    begin(sessions, sub)
    before = sessions.snapshot(sub)

    sessions.sweep([sub, "nobody"])
    sessions.sweep([])

    assert sessions.snapshot(sub).subscription.revision == before.subscription.revision


# The end of a stream


def test_ended_stream_keeps_uncommitted_partitions_and_its_end_counts_once(
    store: Store, sub: str, sessions: Sessions
) -> None:
    """The answer to the first end may be lost, so that it is repeated."""
    first = begin(sessions, sub)

    for _ in range(2):
        sessions.end(sub, first, an_end(hold_seconds=60, p0=7))

    p, q = read_slots(store, sub)
    assert (p.owner, p.sent, p.failed) == (first, 7, 1)
    assert (q.owner, q.sent, q.failed) == (None, None, 0)
    second = begin(sessions, sub)
    assert read_heirs(store, sub) == [(first, second), (second, None)]


def test_ended_stream_takes_no_slot_and_keeps_partitions_for_its_time_alone(
    either_store: Store, migrated_url: str
) -> None:
    sub, sessions = subscribed(either_store, partitions=1), sessions_of(either_store)
    first = begin(sessions, sub)
    sessions.end(sub, first, an_end(hold_seconds=6000, p0=7))
    second = begin(sessions, sub)
    let_time_pass(migrated_url, 5000)
    sessions.sweep([sub])
    assert read_owners(either_store, sub) == [first]

    let_time_pass(migrated_url, 1000)
    with pytest.raises(StreamNotFound):
        sessions.extend(sub, first)
    sessions.sweep([sub])

    assert read_owners(either_store, sub) == [second]


@pytest.mark.parametrize(
    ("hold_seconds", "sent", "failed"),
    [(0.0, {"p0": 7}, 1), (-1.0, {"p0": 7}, 1), (60.0, {}, 0), (60.0, {"p0": 3}, 0), (60.0, {"p0": 2}, 0)],
    ids=["time over", "time over before", "sent nothing", "all committed", "more committed than sent"],
)
def test_ended_stream_without_anything_to_commit_keeps_nothing(
    store: Store, sub: str, sessions: Sessions, *, hold_seconds: float, sent: dict[str, int], failed: int
) -> None:
    first = begin(sessions, sub)
    move(store, sub, p0=3)

    for _ in range(2):
        sessions.end(sub, first, an_end(hold_seconds, **sent))

    assert read_owners(store, sub) == [None, None]
    assert sessions.snapshot(sub).sessions == []
    assert read_slots(store, sub)[0].failed == failed


def test_failures_of_a_partition_in_a_row_are_counted(store: Store, sessions: Sessions) -> None:
    sub = subscribed(store, annotations={"penstock/park-after-attempts": "10"})

    for _ in range(3):
        sessions.end(sub, begin(sessions, sub), an_end(p0=7))

    assert [slot.failed for slot in read_slots(store, sub)] == [3, 0]


def test_extension_begins_the_time_to_commit_again(either_store: Store, migrated_url: str) -> None:
    sub, sessions = subscribed(either_store, partitions=1), sessions_of(either_store)
    first = begin(sessions, sub, commit_timeout=6000)

    for _ in range(2):
        sessions.extend(sub, first)
    assert sessions.snapshot(sub).sessions[0].extensions == 2
    sessions.end(sub, first, an_end(hold_seconds=6000, p0=7))
    let_time_pass(migrated_url, 5000)
    sessions.extend(sub, first)

    with either_store.read() as tx:
        now = tx.now()
    held_until = sessions.snapshot(sub).sessions[0].holds_until
    assert held_until is not None
    assert 5000 < (held_until - now) / 1e6 <= 6000


# Streams that are given back


def test_ended_stream_that_is_given_back_frees_its_partitions_at_once(
    store: Store, sub: str, sessions: Sessions
) -> None:
    first = begin(sessions, sub)
    sessions.end(sub, first, an_end(hold_seconds=60, p0=7, p1=9))
    second = begin(sessions, sub)

    assert sessions.release(sub, first, keep=[Q], failed=[])
    assert [(slot.owner, slot.failed) for slot in read_slots(store, sub)] == [(second, 0), (first, 1)]
    assert sessions.release(sub, first)
    assert read_owners(store, sub) == [second, second]
    with pytest.raises(StreamNotFound):
        sessions.release(sub, first)


def test_stream_that_is_given_back_while_it_is_sent_frees_its_partitions_when_its_hub_is_gone(
    either_store: Store, either_sub: str, migrated_url: str
) -> None:
    sub, sessions = either_sub, sessions_of(either_store)
    first = begin(sessions, sub)

    assert not sessions.release(sub, first)
    assert read_owners(either_store, sub) == [first, first]
    assert sessions.snapshot(sub).sessions[0].holds_until is not None
    lose_hub(migrated_url)

    assert sessions.release(sub, first)
    assert read_owners(either_store, sub) == [None, None]


def test_stream_without_partitions_is_given_back_once_its_hub_has_ended_it(store: Store, sessions: Sessions) -> None:
    sub = subscribed(store, partitions=1)
    idle = begin(sessions, sub)
    taker = begin(sessions, sub, P)
    sessions.hand_over(sub, idle, [P])
    assert read_owners(store, sub) == [taker]

    for _ in range(2):
        assert not sessions.release(sub, idle)
        assert idle in {each.id for each in sessions.snapshot(sub).sessions}, "its hub has yet to hear of it"
    sessions.end(sub, idle, an_end(hold_seconds=9))

    with pytest.raises(StreamNotFound):
        sessions.release(sub, idle)
    assert read_owners(store, sub) == [taker]


# Refusals

UNKNOWN: dict[str, tuple[Callable[[Sessions, str], object], type[PenstockError]]] = {
    "look at no subscription": (lambda sessions, _: sessions.snapshot("nobody"), SubscriptionNotFound),
    "stream of no subscription": (lambda sessions, _: begin(sessions, "nobody"), SubscriptionNotFound),
    "extend no subscription": (lambda sessions, _: sessions.extend("nobody", "x"), SubscriptionNotFound),
    "extend no stream": (lambda sessions, sub: sessions.extend(sub, "x"), StreamNotFound),
    "give back no subscription": (lambda sessions, _: sessions.release("nobody", "x"), SubscriptionNotFound),
    "give back no stream": (lambda sessions, sub: sessions.release(sub, "x"), StreamNotFound),
}


@pytest.mark.parametrize(("act", "error"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_subscription_or_stream_is_not_found(
    sub: str, sessions: Sessions, act: Callable[[Sessions, str], object], error: type[PenstockError]
) -> None:
    with pytest.raises(error):
        act(sessions, sub)


def test_streams_of_a_deleted_subscription_end_in_silence(store: Store, sessions: Sessions) -> None:
    sessions.end("nobody", "x", an_end(p0=7))
    sessions.hand_over("nobody", "x", [P])

    assert parked_keys_of(store).park("nobody", "x", {}) == set()


def test_only_the_owner_sets_events_ahead_of_the_position_aside(store: Store, sub: str, sessions: Sessions) -> None:
    own = begin(sessions, sub)
    with store.write() as tx:
        tx.subscriptions.park(sub, P, "a", 3, attempts=2, at=START_AT)
        [parked] = tx.subscriptions.list_parked(sub)
    move(store, sub, p0=5)

    parked_keys = parked_keys_of(store)
    assert set(parked_keys.park(sub, own, {parked.id: [4, 6], parked.id + 1: [7]})) == {parked.id}
    assert set(parked_keys.park(sub, "a former owner", {parked.id: [8]})) == {parked.id}

    with store.read() as tx:
        assert tx.subscriptions.list_parked_offsets(parked.id, after=-1, limit=9) == [3, 6]
