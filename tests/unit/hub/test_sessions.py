"""Who has which partition, as the database says it; times are the database's, so rows are written back by SQL."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest

from penstock.core.event_type import EventType
from penstock.errors import (
    DatabaseUnavailable,
    InvalidSubscription,
    NoFreeSlots,
    OutcomeUnknown,
    PartitionsTaken,
    PenstockError,
    ResetUnderWay,
    StreamNotFound,
    SubscriptionNotFound,
)
from penstock.hub.look import LEASE_S
from penstock.hub.subscriptions import Subscriptions, grow
from penstock.storage import Store, Tx, open_store
from penstock.storage.opening import Opening
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.factories import an_event_type
from tests.unit.hub.feeds import NAME, find_feed
from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.subscribing import (
    P,
    Q,
    an_end,
    let_time_pass,
    lose_hub,
    move,
    open_stream,
    read_offsets,
    read_owners,
    read_slots,
    sessions_of,
    subscribe,
    subscribed,
)

ROUNDS = 5


def test_one_has_all_and_another_its_share_as_soon_as_it_is_let_go(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    first = open_stream(sessions, sub).session.id
    assert read_owners(store, sub) == [first, first]

    second = open_stream(sessions, sub).session.id
    [moving] = [slot for slot in read_slots(store, sub) if slot.heir]
    assert (read_owners(store, sub), moving.heir) == ([first, first], second)
    sessions.release(sub, first, [moving.place])

    assert sorted(read_owners(store, sub), key=str) == sorted([first, second])
    assert all(slot.heir is None for slot in read_slots(store, sub))


def test_a_look_behind_a_lock_is_only_a_look_however_its_transaction_ends(store: Store) -> None:
    class Breaking(ForwardingStore):
        @contextmanager
        def write(self, *, patient: bool = True, opening: Opening | None = None) -> Iterator[Tx]:
            with super().write(patient=patient, opening=opening) as tx:
                yield tx
            raise OutcomeUnknown(reason="the connection broke")

    sub = subscribed(store)
    sessions = sessions_of(Breaking(store))
    assert not sessions.look(sub).sessions
    with pytest.raises(DatabaseUnavailable, match="the connection broke"):
        sessions.look(sub, settled=True)


def test_at_a_glance_nobody_has_anything_of_a_subscription_that_is_gone(store: Store) -> None:
    sub, sessions, subscriptions = subscribed(store), sessions_of(store), Subscriptions(store, VirtualClock())
    other = subscribe(store, "other")
    first, second = open_stream(sessions, sub).session.id, open_stream(sessions, other).session.id
    known = [subscriptions.find(each) for each in (sub, other)]
    assert [each.id for look in sessions.glance(known) for each in look.sessions] == [first, second]

    subscriptions.delete(sub)

    gone, there = sessions.glance(known)
    assert (gone.subscription.id, gone.slots, gone.sessions) == (sub, [], [])
    assert {slot.owner for slot in there.slots} == {second}


def test_what_nobody_else_is_to_have_is_not_let_go(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    first = open_stream(sessions, sub).session.id

    sessions.release(sub, first, [P, Q])
    sessions.release("nobody", first, [P, Q])
    assert read_owners(store, sub) == [first, first]
    open_stream(sessions, sub, Q)
    sessions.release(sub, "another", [P, Q])

    assert read_owners(store, sub) == [first, first]


def test_what_is_let_go_for_one_that_has_left_meanwhile_stays_to_be_shared(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    first, second = open_stream(sessions, sub).session.id, open_stream(sessions, sub, Q).session.id
    sessions.end(sub, second, an_end())
    assert [slot.heir for slot in read_slots(store, sub)] == [None, None]

    sessions.release(sub, first, [Q])

    assert read_owners(store, sub) == [first, first]


def test_a_partition_that_is_asked_for_goes_to_who_asks_for_it(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    auto = open_stream(sessions, sub).session.id

    direct = open_stream(sessions, sub, Q).session.id

    assert [(slot.owner, slot.heir) for slot in read_slots(store, sub)] == [(auto, None), (auto, direct)]
    with pytest.raises(PartitionsTaken) as told:
        open_stream(sessions, sub, P, Q)
    assert told.value.fields["partitions"] == [{"event_type": NAME, "partition": "1"}]
    sessions.release(sub, auto, [Q])
    sessions.end(sub, direct, an_end())
    assert read_owners(store, sub) == [auto, auto]


def test_there_is_room_for_as_many_as_there_are_partitions(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    for _ in range(2):
        open_stream(sessions, sub)

    with pytest.raises(NoFreeSlots, match="Total slots: 2"):
        open_stream(sessions, sub)
    assert len(sessions.look(sub).sessions) == 2


@pytest.mark.parametrize("wants", [(("nothing", 0),), (P, (NAME, 2))], ids=["another event type", "one too many"])
def test_what_a_subscription_does_not_have_cannot_be_asked_for(
    store: Store, wants: tuple[tuple[str, int], ...]
) -> None:
    sub, sessions = subscribed(store), sessions_of(store)

    with pytest.raises(InvalidSubscription, match="the subscription does not read partition "):
        open_stream(sessions, sub, *wants)

    assert read_slots(store, sub) == [], "it has not begun by that"


@pytest.mark.parametrize("wants", [(), (P,)], ids=["the last slot", "the same partition"])
def test_of_two_hubs_exactly_one_gets_the_last_slot(
    either_store: Store, migrated_url: str, wants: tuple[tuple[str, int], ...]
) -> None:
    sub = subscribed(either_store, partitions=1)
    other = open_store(migrated_url)
    racers = [sessions_of(either_store, "one"), sessions_of(other, "two")] * 2

    for _ in range(ROUNDS):
        go = Barrier(len(racers))

        def race(at: int, go: Barrier = go) -> str | None:
            go.wait()
            try:
                return open_stream(racers[at], sub, *wants).session.id
            except (NoFreeSlots, PartitionsTaken):
                return None

        with ThreadPoolExecutor(len(racers)) as threads:
            got = [each for each in threads.map(race, range(len(racers))) if each]
        assert len(got) == 1
        assert read_owners(either_store, sub) == got
        racers[0].end(sub, got[0], an_end())
    other.close()


def test_those_who_come_and_go_at_once_never_share_a_partition(either_store: Store, migrated_url: str) -> None:
    sub = subscribed(either_store, partitions=3)
    other = open_store(migrated_url)
    stores = [either_store, other] * 2
    hubs = [sessions_of(either_store, "one"), sessions_of(other, "two")] * 2

    def come_and_go(at: int) -> None:
        sessions = hubs[at]
        for _ in range(ROUNDS):
            try:
                own = open_stream(sessions, sub).session.id
            except NoFreeSlots:
                continue
            with stores[at].write() as tx:
                tx.subscriptions.lock(sub)  # Between two statements alone others come and go.
                known = {each.id for each in tx.subscriptions.sessions(sub)}
                held = tx.subscriptions.slots(sub)
            assert {slot.owner for slot in held} <= known, "whoever has a partition is there"
            sessions.release(sub, own, [slot.place for slot in held])
            sessions.end(sub, own, an_end())

    with ThreadPoolExecutor(len(hubs)) as threads:
        for done in [threads.submit(come_and_go, at) for at in range(len(hubs))]:
            done.result(300)
    other.close()

    assert read_owners(either_store, sub) == [None] * 3
    assert sessions_of(either_store).look(sub).sessions == []


def test_whose_time_is_over_is_told_to_have_nothing_though_nobody_has_taken_it(
    either_store: Store, migrated_url: str
) -> None:
    sub, sessions = subscribed(either_store), sessions_of(either_store)
    open_stream(sessions, sub, P, commit_s=20)
    session_id = open_stream(sessions, sub, Q, commit_s=20).session.id

    def told() -> list[str | None]:
        look = sessions.look(sub, counts=True)
        assert look.slots == sessions.glance([look.subscription])[0].slots
        return [slot.owner if slot.owner in look.present else None for slot in look.slots]

    assert told()[1] == session_id
    sessions.end(sub, session_id, an_end(hold_s=15, p1=1))
    assert told()[1] == session_id
    let_time_pass(migrated_url, 16)
    assert told()[1] is None

    first = told()[0]
    assert first is not None
    lose_hub(migrated_url, seconds=11)
    assert told() == [first, None]
    lose_hub(migrated_url, seconds=10)
    assert told() == [None, None]
    assert read_owners(either_store, sub) == [first, session_id]


# Hubs that are gone


def test_of_a_hub_that_is_gone_others_have_what_they_want_at_once(either_store: Store, migrated_url: str) -> None:
    sub = subscribed(either_store)
    lost, living = sessions_of(either_store, "lost"), sessions_of(either_store, "living")
    gone = open_stream(lost, sub).session.id
    lose_hub(migrated_url, "lost", seconds=LEASE_S - 2)
    second = open_stream(living, sub).session.id
    assert read_owners(either_store, sub) == [gone, gone], "it is not gone yet"

    lose_hub(migrated_url, "lost", seconds=2)
    living.sweep([sub])

    assert read_owners(either_store, sub) == [second, second]
    assert [each.id for each in living.look(sub).sessions] == [second]


def test_of_a_hub_that_is_gone_streams_keep_what_nobody_wants_until_their_time_is_over(
    either_store: Store, migrated_url: str
) -> None:
    sub = subscribed(either_store)
    lost, living = sessions_of(either_store, "lost"), sessions_of(either_store, "living")
    gone = open_stream(lost, sub, commit_s=60).session.id
    lose_hub(migrated_url, "lost")

    direct = open_stream(living, sub, Q).session.id
    assert read_owners(either_store, sub) == [gone, direct], "it may still commit what nobody else has"
    living.extend(sub, gone)
    let_time_pass(migrated_url, 59)
    living.sweep([sub])
    assert read_owners(either_store, sub) == [gone, direct]
    let_time_pass(migrated_url, 1)
    living.sweep([sub])

    assert read_owners(either_store, sub) == [None, direct]
    with pytest.raises(StreamNotFound):
        living.extend(sub, gone)


def test_a_hub_that_is_gone_takes_no_slot(either_store: Store, migrated_url: str) -> None:
    sub = subscribed(either_store, partitions=1)
    open_stream(sessions_of(either_store, "lost"), sub)
    lose_hub(migrated_url, "lost")

    second = open_stream(sessions_of(either_store, "living"), sub).session.id

    assert read_owners(either_store, sub) == [second]


def test_a_sweep_leaves_alone_those_whose_streams_are_all_there(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    open_stream(sessions, sub)
    before = sessions.look(sub)

    sessions.sweep([sub, "nobody"])
    sessions.sweep([])

    assert sessions.look(sub).subscription.revision == before.subscription.revision


# The end of a stream


def test_what_was_sent_and_not_committed_is_held_and_the_rest_is_free(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    first = open_stream(sessions, sub)

    sessions.end(sub, first.session.id, an_end(hold_s=60, p0=7))

    p, q = read_slots(store, sub)
    assert (p.owner, p.sent, p.failed) == (first.session.id, 7, 1)
    assert (q.owner, q.sent, q.failed) == (None, None, 0)
    second = open_stream(sessions, sub).session.id
    assert [(slot.owner, slot.heir) for slot in read_slots(store, sub)] == [(first.session.id, second), (second, None)]


def test_one_that_holds_takes_no_slot_and_holds_no_longer_than_it_may(either_store: Store, migrated_url: str) -> None:
    sub, sessions = subscribed(either_store, partitions=1), sessions_of(either_store)
    first = open_stream(sessions, sub).session.id
    sessions.end(sub, first, an_end(hold_s=60, p0=7))
    second = open_stream(sessions, sub).session.id
    let_time_pass(migrated_url, 55)
    sessions.sweep([sub])
    assert read_owners(either_store, sub) == [first]

    let_time_pass(migrated_url, 5)
    with pytest.raises(StreamNotFound):
        sessions.extend(sub, first)
    sessions.sweep([sub])

    assert read_owners(either_store, sub) == [second]


@pytest.mark.parametrize(
    ("hold_s", "sent"), [(0.0, {"p0": 7}), (-1.0, {"p0": 7}), (60.0, {}), (60.0, {"p0": 3}), (60.0, {"p0": 2})],
    ids=["its time is over", "its time was over before", "it was sent nothing", "all is committed",
         "more is committed than it was sent"],
)  # fmt: skip
def test_nothing_is_held_where_nothing_can_be_committed(store: Store, hold_s: float, sent: dict[str, int]) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    first = open_stream(sessions, sub).session.id
    move(store, sub, p0=3)

    sessions.end(sub, first, an_end(hold_s, **sent))
    sessions.end(sub, first, an_end(hold_s, **sent))

    assert read_owners(store, sub) == [None, None]
    assert sessions.look(sub).sessions == []
    assert read_slots(store, sub)[0].failed == (sent.get("p0") == 7)


def test_an_end_that_is_told_again_counts_once(store: Store) -> None:
    """The first telling got through, and its answer was lost."""
    sub, sessions = subscribed(store), sessions_of(store)
    session = open_stream(sessions, sub).session.id

    for _ in range(2):
        sessions.end(sub, session, an_end(hold_s=60, p0=7))

    assert [(slot.owner, slot.failed) for slot in read_slots(store, sub)] == [(session, 1), (None, 0)]


def test_it_is_counted_how_often_in_a_row_a_partition_has_failed(store: Store) -> None:
    sub, sessions = subscribed(store, annotations={"penstock/park-after-attempts": "10"}), sessions_of(store)

    for _ in range(3):
        sessions.end(sub, open_stream(sessions, sub).session.id, an_end(p0=7))

    assert [slot.failed for slot in read_slots(store, sub)] == [3, 0]


def test_time_to_commit_begins_anew(either_store: Store, migrated_url: str) -> None:
    sub, sessions = subscribed(either_store, partitions=1), sessions_of(either_store)
    first = open_stream(sessions, sub, commit_s=60).session.id

    sessions.extend(sub, first)
    sessions.extend(sub, first)
    assert sessions.look(sub).sessions[0].extensions == 2
    sessions.end(sub, first, an_end(hold_s=60, p0=7))
    let_time_pass(migrated_url, 50)
    sessions.extend(sub, first)

    with either_store.read() as tx:
        now = tx.subscriptions.now()
    held_until = sessions.look(sub).sessions[0].holds_until
    assert held_until is not None
    assert 50 < (held_until - now) / 1e6 <= 60


# Streams that are given back


def test_what_is_given_back_is_free_at_once_where_its_hub_has_ended_the_stream(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    first = open_stream(sessions, sub).session.id
    sessions.end(sub, first, an_end(hold_s=60, p0=7, p1=9))
    second = open_stream(sessions, sub).session.id

    assert sessions.give_back(sub, first, keep=[Q], failed=[])
    assert [(slot.owner, slot.failed) for slot in read_slots(store, sub)] == [(second, 0), (first, 1)]
    assert sessions.give_back(sub, first)
    assert read_owners(store, sub) == [second, second]
    with pytest.raises(StreamNotFound):
        sessions.give_back(sub, first)


def test_what_its_hub_still_sends_is_not_free_before_that_has_ended_it(either_store: Store, migrated_url: str) -> None:
    sub, sessions = subscribed(either_store), sessions_of(either_store)
    first = open_stream(sessions, sub).session.id

    assert not sessions.give_back(sub, first)
    assert read_owners(either_store, sub) == [first, first]
    assert sessions.look(sub).sessions[0].holds_until is not None
    lose_hub(migrated_url)

    assert sessions.give_back(sub, first)
    assert read_owners(either_store, sub) == [None, None]


# What is refused, and what changes under it


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda sessions, _: sessions.look("nobody"), SubscriptionNotFound),
        (lambda sessions, _: open_stream(sessions, "nobody"), SubscriptionNotFound),
        (lambda sessions, _: sessions.extend("nobody", "x"), SubscriptionNotFound),
        (lambda sessions, sub: sessions.extend(sub, "x"), StreamNotFound),
        (lambda sessions, _: sessions.give_back("nobody", "x"), SubscriptionNotFound),
        (lambda sessions, sub: sessions.give_back(sub, "x"), StreamNotFound),
    ],
    ids=["a look", "a stream", "time for none", "time for no stream", "none given back", "no stream given back"],
)
def test_what_is_not_there_is_refused(store: Store, act: object, told: type[PenstockError]) -> None:
    sub = subscribed(store)
    assert callable(act)

    with pytest.raises(told):
        act(sessions_of(store), sub)


def test_a_subscription_that_is_gone_ends_streams_in_silence(store: Store) -> None:
    sessions = sessions_of(store)

    sessions.end("nobody", "x", an_end(p0=7))
    sessions.release("nobody", "x", [P])

    assert sessions.set_aside("nobody", "x", {}) == set()


def test_only_who_has_a_partition_lets_its_events_wait_and_only_those_ahead(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    own = open_stream(sessions, sub).session.id
    with store.write() as tx:
        tx.parked.park(sub, P, "a", 3, attempts=2, at=START_AT)
        [parked] = tx.parked.list(sub)
    move(store, sub, p0=5)

    assert set(sessions.set_aside(sub, own, {parked.id: [4, 6], parked.id + 1: [7]})) == {parked.id}
    assert set(sessions.set_aside(sub, "one that had it", {parked.id: [8]})) == {parked.id}

    with store.read() as tx:
        assert tx.parked.offsets(parked.id, after=-1, limit=9) == [3, 6]


def test_a_stream_without_a_partition_is_given_back_once_its_hub_has_ended_it(store: Store) -> None:
    sub, sessions = subscribed(store, partitions=1), sessions_of(store)
    idle = open_stream(sessions, sub).session.id
    taker = open_stream(sessions, sub, P).session.id
    sessions.release(sub, idle, [P])
    assert read_owners(store, sub) == [taker]

    for _ in range(2):
        assert not sessions.give_back(sub, idle)
        assert idle in {each.id for each in sessions.look(sub).sessions}, "its hub has yet to hear of it"
    sessions.end(sub, idle, an_end(hold_s=9))

    with pytest.raises(StreamNotFound):
        sessions.give_back(sub, idle)
    assert read_owners(store, sub) == [taker]


def test_no_stream_begins_while_cursors_are_being_reset(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    for until in (1 << 60, 1):
        with store.write() as tx:
            tx.subscriptions.reset_until(sub, until)
        if until > 1:
            with pytest.raises(ResetUnderWay):
                open_stream(sessions, sub)
        else:
            open_stream(sessions, sub)


def test_partitions_that_are_added_begin_at_their_beginning(store: Store) -> None:
    sub, sessions = subscribed(store), sessions_of(store)
    first = open_stream(sessions, sub).session.id
    move(store, sub, p0=5, p1=6)
    feed = find_feed(store)

    with store.write() as tx:
        tx.feeds.update(feed, EventType.parse(an_event_type(NAME, partition_count=4)), START_AT)
        grow(tx, feed, 4, START_AT)
    assert read_offsets(store, sub) == [5, 6, 0, 0]
    assert read_owners(store, sub) == [first, first, None, None]
    second = open_stream(sessions, sub).session.id

    assert sorted(read_owners(store, sub), key=str) == sorted([first, first, second, second])
