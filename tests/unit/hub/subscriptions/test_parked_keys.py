"""Events of parked keys wait in their order, and those of other keys flow; operators retry and skip them."""

import pytest

from penstock.core.subscriptions.assignment import PoisonOffset
from penstock.core.subscriptions.delivery import COMMIT_TIMEOUT
from penstock.core.subscriptions.tokens import ParkedSpan, make_parked_token
from penstock.errors import DatabaseUnavailable, ParkedNotFound, SubscriptionNotFound
from penstock.hub.subscriptions import parked_keys
from penstock.hub.subscriptions.commits import CursorCommit
from penstock.hub.subscriptions.consumer_stream import PAUSE_SECONDS, ConsumerStream
from penstock.hub.subscriptions.parked_keys import ParkedKeys
from penstock.hub.subscriptions.sessions import LEASE_EXPIRED, RELEASED, STOPPING
from penstock.hub.subscriptions.slots import begin_subscription, get_subscription
from penstock.storage import Store
from penstock.storage.groups import PositionChange
from penstock.storage.subscriptions import StoredParkedKey
from penstock.testing.clock import START_AT, VirtualClock
from tests.promises.scene import until
from tests.store_contract import database_at
from tests.unit.hub.feeds import NAME
from tests.unit.hub.forwarding import fail, fail_at
from tests.unit.hub.subscribing import (
    P,
    Played,
    Q,
    an_end,
    deliver,
    let_time_pass,
    move,
    open_stream,
    read_offsets,
    read_owners,
    read_slots,
    sessions_of,
    subscribe,
    subscribed,
)

DONE = "Stream timeout reached"


@pytest.fixture
def sub(store: Store) -> str:
    return subscribed(store, partitions=1)


def park(store: Store, sub: str, key: str | None = "a", *waiting: int) -> int:
    """Park a key with events that the position has passed, by default the first one; return its id."""
    with store.write() as tx:
        begun = begin_subscription(tx, get_subscription(tx, sub, lock=True), 0)
        for each in waiting or (0,):
            tx.subscriptions.park(sub, P, key, each, attempts=2, at=0)
        passed = max(waiting or (0,)) + 1
        [slot] = [slot for slot in begun if slot.place == P]
        tx.groups.put(sub, [slot._replace(offset=max(passed, slot.offset)).position], 0)
        return tx.subscriptions.list_parked(sub)[-1].id


def read_waiting(store: Store, sub: str) -> dict[str | None, list[int]]:
    """Return the waiting events of each key."""
    with store.read() as tx:
        return {
            each.key: list(tx.subscriptions.list_parked_offsets(each.id, after=-1, limit=99))
            for each in tx.subscriptions.list_parked(sub)
        }


def remove_first_event(store: Store) -> None:
    database = database_at(store.url)
    database.run("UPDATE penstock_partition SET floor = 1")
    database.run('DELETE FROM penstock_event WHERE "offset" = 0')


def acknowledge(hub: Played, stream: ConsumerStream, parked_id: int, last: int) -> None:
    token = make_parked_token(stream.secret, ParkedSpan(parked_id, last))
    hub.commits.submit(stream.subscription_id, stream.session_id, [CursorCommit(P, 0, token)]).result(300)


def commit(hub: Played, stream: ConsumerStream, position: int, *, is_trusted: bool = False) -> None:
    cursors = [CursorCommit(P, position)]
    hub.commits.submit(stream.subscription_id, stream.session_id, cursors, is_trusted=is_trusted).result(300)


def retry(hub: Played, sub: str) -> None:
    hub.parked_keys.retry(sub)
    hub.local_streams.notify_changed(sub)


def close(stream: ConsumerStream, reason: str | None = DONE) -> None:
    if reason is not None:
        stream.end(reason)
    stream.close()


def pass_over(hub: Played, stream: ConsumerStream, position: int) -> None:
    """Let a stream commit the events that it has left out, which it does soon where parked ones wait for that."""
    hub.now += PAUSE_SECONDS
    deliver(stream)
    until(lambda: read_offsets(hub.store, stream.subscription_id) == [position], f"it has passed {position}")
    until(lambda: stream.has_work, "the stream has heard of it")


def deliver_at_flush(hub: Played, stream: ConsumerStream) -> list[str]:
    """Return the batches up to the next flush, without keep-alives."""
    hub.now += 1
    hub.lease.renew()
    return [each.partition(" Stream started")[0] for each in deliver(stream) if "[]" not in each]


# Given up by the consumer


def give_up(hub: Played, sub: str, stream: ConsumerStream, *events: tuple[int, int]) -> None:
    """End a stream that gives up events, each by its epoch and offset."""
    close(stream)
    parked = [PoisonOffset(P, epoch, offset, 3) for epoch, offset in events]
    hub.sessions.release(sub, stream.session_id, failed=(), parked=parked)


def test_event_that_a_consumer_gives_up_parks_its_key_from_there_on(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, 3, 4, 5, keys="abaab")
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)

    give_up(hub, sub, stream, (1, 2))

    with store.read() as tx:
        assert [(each.key, each.attempts) for each in tx.subscriptions.list_parked(sub)] == [("a", 3)]
    assert [slot.failed for slot in read_slots(store, sub)] == [0]
    sent = [each.partition(" ")[0] for each in deliver(hub.stream(sub, batch_limit=1))]
    assert sent == ["0:1[1]", "0:2[2]", "0:5[5]"], "what is before it comes again"
    assert read_waiting(store, sub) == {"a": [2, 3]}


def test_event_without_a_key_that_a_consumer_gives_up_is_left_out_alone(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, 3, keys="...")
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)

    give_up(hub, sub, stream, (1, 1))

    sent = [each.partition(" ")[0] for each in deliver(hub.stream(sub, batch_limit=1))]
    assert sent == ["0:1[1]", "0:3[3]"]
    assert read_waiting(store, sub) == {None: [1]}


@pytest.mark.parametrize("event", [(1, 0), (2, 1), (1, 2), (1, 99)], ids=["committed", "epoch", "end", "beyond"])
def test_event_that_is_not_uncommitted_here_is_not_parked(
    hub: Played, store: Store, sub: str, event: tuple[int, int]
) -> None:
    hub.publish(1, 2, keys="ab")
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    commit(hub, stream, 1)

    give_up(hub, sub, stream, event)

    assert read_waiting(store, sub) == {}


def test_event_of_a_partition_that_another_stream_has_is_not_parked(hub: Played, store: Store) -> None:
    both = subscribed(store, partitions=2)
    hub.publish(1, keys="a")
    hub.publish(2, partition=1, keys="b")
    mine, other = open_stream(hub.sessions, both, Q), open_stream(hub.sessions, both, P)
    hub.sessions.end(both, mine.session.id, an_end(60, p1=1))

    hub.sessions.release(both, mine.session.id, failed=(), parked=[PoisonOffset(P, 1, 0, 3)])

    assert read_waiting(store, both) == {}
    assert read_owners(store, both)[0] == other.session.id


# Waiting


def test_events_of_a_parked_key_wait_and_the_others_flow(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, 3, 4, 5, keys="abacb")
    park(store, sub)
    stream = hub.stream(sub, batch_limit=1)

    assert [each.partition(" ")[0] for each in deliver(stream)] == ["0:2[2]", "0:4[4]", "0:5[5]"]
    assert read_waiting(store, sub) == {"a": [0, 2]}
    hub.publish(6, 7, keys="a.")

    assert deliver(stream) == ["0:7[7]"]
    assert read_waiting(store, sub) == {"a": [0, 2, 5]}
    assert read_offsets(store, sub) == [1]

    close(stream)
    hub.sessions.release(sub, stream.session_id)
    assert len(deliver(hub.stream(sub, batch_limit=1))) == 4
    assert read_waiting(store, sub) == {"a": [0, 2, 5]}, "an event that is read twice waits once"


def test_parked_event_without_a_key_holds_back_no_other(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, keys="..")
    park(store, sub, None, 0)
    hub.sessions.end(sub, open_stream(hub.sessions, sub).session.id, an_end())
    move(store, sub, p0=1)

    assert deliver(hub.stream(sub, batch_limit=1)) == ["0:2[2] Stream started"]
    assert read_waiting(store, sub) == {None: [0]}


def test_partition_without_parked_keys_causes_no_write(hub: Played, store: Store, sub: str) -> None:
    with store.write() as tx:
        tx.subscriptions.park(sub, Q, "a", 0, attempts=2, at=0)
    hub.publish(1, keys="a")
    stream = hub.stream(sub, batch_limit=1)
    before = hub.store.writes

    assert deliver(stream) == ["0:1[1] Stream started"]
    assert hub.store.writes == before


def test_event_of_a_key_that_was_acknowledged_elsewhere_is_sent(hub: Played, store: Store, sub: str) -> None:
    """The stream has not looked since, and assumes that the key is parked."""
    hub.publish(1, keys="a")
    parked_id = park(store, sub)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    with store.write() as tx:
        tx.subscriptions.find(sub, lock=True)
        tx.subscriptions.acknowledge_parked({parked_id: 0})
    hub.publish(2, 3, keys="ab")

    assert deliver(stream) == ["0:2[2] Stream started", "0:3[3]"]

    assert read_waiting(store, sub) == {}
    assert stream.has_work, "it looks then"


def test_key_that_is_parked_again_under_another_id_waits(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, keys="a")
    first = park(store, sub)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    with store.write() as tx:
        tx.subscriptions.acknowledge_parked({first: 99})
    assert park(store, sub) != first
    stream.note_changed()
    hub.publish(2, keys="a")

    assert deliver(stream) == []
    assert read_waiting(store, sub) == {"a": [0, 1]}


def test_events_that_could_not_be_set_aside_are_read_again(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, 3, keys="aab")
    park(store, sub)
    stream = hub.stream(sub, batch_limit=1)

    hub.store.at_write = fail
    with pytest.raises(DatabaseUnavailable):
        deliver(stream)
    hub.store.at_write = lambda _: None

    assert deliver(stream) == ["0:3[3] Stream started"]


def test_events_set_aside_are_committed_at_the_end_of_a_stream(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, 3, keys="aaa")
    park(store, sub)
    stream = hub.stream(sub, batch_limit=1)
    assert deliver(stream) == []
    assert read_offsets(store, sub) == [1]

    close(stream)

    assert read_offsets(store, sub) == [3]
    assert read_waiting(store, sub) == {"a": [0, 1, 2]}


# Sending again


def test_retried_key_is_sent_in_its_order_and_flows_once_all_of_it_is_committed(
    hub: Played, store: Store, sub: str
) -> None:
    hub.publish(1, 2, 3, keys="aba")
    parked_id = park(store, sub)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    retry(hub, sub)

    assert deliver(stream) == ["0:3[1] Parked events"], "as many as make a batch; its position is that of the others"
    hub.publish(4, keys="a")
    assert deliver(stream) == []
    acknowledge(hub, stream, parked_id, 0)
    assert deliver(stream) == [], "the next stream would read uncommitted events and those behind them again"
    commit(hub, stream, 3, is_trusted=True)
    assert deliver(stream) == ["0:3[3] Parked events"]
    acknowledge(hub, stream, parked_id, 2)
    assert deliver(stream) == []
    pass_over(hub, stream, 4)
    assert deliver(stream) == ["0:4[4] Parked events"]
    acknowledge(hub, stream, parked_id, 3)
    assert deliver(stream) == []

    hub.publish(5, keys="a")
    assert deliver(stream) == ["0:5[5]"]
    assert (read_waiting(store, sub), read_offsets(store, sub)) == ({}, [4])


def test_retried_key_is_sent_only_as_far_as_the_position_has_passed(hub: Played, store: Store, sub: str) -> None:
    """The next owner of the partition would read the others again, and set them aside once more."""
    hub.publish(1, 2, 3, 4, keys="abaa")
    parked_id = park(store, sub)
    stream = hub.stream(sub, batch_limit=10)
    assert deliver_at_flush(hub, stream) == []
    hub.now += 30
    assert deliver_at_flush(hub, stream) == ["0:4[2]"]
    retry(hub, sub)

    assert deliver(stream) == ["0:4[1] Parked events"]
    acknowledge(hub, stream, parked_id, 0)
    assert deliver(stream) == []
    for position, event in ((3, 3), (4, 4)):
        commit(hub, stream, position)
        assert deliver(stream) == [f"0:4[{event}] Parked events"]
        acknowledge(hub, stream, parked_id, position - 1)

    assert (read_waiting(store, sub), read_offsets(store, sub)) == ({}, [4])


def test_retried_events_that_could_not_be_read_are_sent_later(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, keys="a")
    park(store, sub)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    retry(hub, sub)
    hub.store.at_read = fail_at(2, after=hub.store.reads)
    with pytest.raises(DatabaseUnavailable):
        deliver(stream)
    assert stream.read_key() is not None

    assert deliver(stream) == ["0:1[1] Stream started"]


@pytest.mark.parametrize("reason", [None, COMMIT_TIMEOUT, RELEASED, STOPPING, LEASE_EXPIRED, DONE])
def test_retried_events_left_uncommitted_are_parked_again_and_count_as_a_failure_of_their_consumer(
    hub: Played, store: Store, sub: str, reason: str | None
) -> None:
    """They do not count where the stream was to end anyway: the next stream sends them, without another request."""
    hub.publish(1, keys="a")
    parked_id = park(store, sub)
    retry(hub, sub)
    stream = hub.stream(sub, batch_limit=1)
    assert deliver(stream) == ["0:1[1] Stream started"]

    close(stream, reason)

    again = StoredParkedKey(parked_id, P, "a", 3, 0, False, 1, 0, 0)
    if reason in (STOPPING, LEASE_EXPIRED, DONE):
        again = again._replace(attempts=2, is_retried=True)
    assert hub.sessions.snapshot(sub, counts=True).parked == [again]
    assert read_slots(store, sub)[0].failed == 0, "the partition itself has not failed"


def test_retried_events_belong_to_their_ended_stream_until_it_commits_them(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, keys="aa")
    parked_id = park(store, sub, "a", 0, 1)
    retry(hub, sub)
    first = hub.stream(sub, batch_limit=1)
    assert deliver(first) == ["0:2[1] Stream started"]
    close(first)
    second = hub.stream(sub, batch_limit=1)
    assert (deliver(second), read_owners(store, sub)) == ([], [first.session_id])

    acknowledge(hub, first, parked_id, 0)

    assert read_owners(store, sub) == [second.session_id]
    assert deliver(second) == ["0:2[2] Stream started"], "the rest of the key comes with the next stream"


def test_retried_events_belong_to_their_ended_stream_no_longer_than_its_time(
    hub: Played, store: Store, sub: str
) -> None:
    hub.publish(1, keys="a")
    park(store, sub)
    retry(hub, sub)
    first = hub.stream(sub, batch_limit=1)
    deliver(first)
    close(first)
    let_time_pass(store.url, 61)

    assert deliver(hub.stream(sub, batch_limit=1)) == ["0:1[1] Stream started"]


@pytest.mark.parametrize("is_first", [True, False], ids=["the position first", "the key first"])
def test_ended_stream_keeps_a_partition_until_events_and_parked_events_are_committed(
    hub: Played, store: Store, sub: str, is_first: bool
) -> None:
    hub.publish(1, 2, keys="ab")
    parked_id = park(store, sub)
    retry(hub, sub)
    stream = hub.stream(sub, batch_limit=1)
    assert deliver(stream) == ["0:1[1] Stream started", "0:2[2]"]
    close(stream)
    steps = [lambda: commit(hub, stream, 2), lambda: acknowledge(hub, stream, parked_id, 0)]
    first, second = steps if is_first else reversed(steps)

    first()
    assert read_owners(store, sub) == [stream.session_id]
    assert read_slots(store, sub)[0].failed == 1 - is_first
    second()
    assert read_owners(store, sub) == [None]
    assert (read_waiting(store, sub), read_offsets(store, sub)) == ({}, [2])


def test_partition_is_not_released_while_its_parked_events_are_uncommitted(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=2)
    hub.publish(1, keys="a")
    parked_id = park(store, sub)
    retry(hub, sub)
    first = hub.stream(sub, batch_limit=1)
    deliver(first)
    second = hub.stream(sub, P, batch_limit=1)
    hub.local_streams.notify_changed(sub)

    assert deliver(first) == []
    assert read_owners(store, sub)[0] == first.session_id
    acknowledge(hub, first, parked_id, 0)
    deliver(first)

    assert read_owners(store, sub)[0] == second.session_id


def test_parked_events_are_not_sent_again_of_a_partition_that_another_stream_is_to_have(
    hub: Played, store: Store
) -> None:
    sub = subscribed(store, partitions=2)
    hub.publish(1, 2, keys="ab")
    park(store, sub)
    first = hub.stream(sub, batch_limit=1)
    assert deliver(first) == ["0:2[2] Stream started"]
    second = hub.stream(sub, P, batch_limit=1)
    assert deliver(second) == []

    retry(hub, sub)

    assert deliver(first) == []
    commit(hub, first, 2)
    deliver(first)
    assert read_owners(store, sub)[0] == second.session_id
    assert deliver(second) == ["0:2[1] Stream started"]


def test_parked_events_removed_by_retention_are_skipped(hub: Played, store: Store, sub: str) -> None:
    hub.publish(1, 2, keys="aa")
    park(store, sub, "a", 0, 1)
    park(store, sub, "b", 0)
    remove_first_event(store)
    retry(hub, sub)
    stream = hub.stream(sub, batch_limit=1)

    sent = [each for _ in range(3) for each in deliver_at_flush(hub, stream)]

    assert sent == ["0:2[2]"]
    assert read_waiting(store, sub) == {"a": [0, 1]}, "the removed one goes with the next commit"


# What operators do


@pytest.fixture
def parking(store: Store, clock: VirtualClock) -> ParkedKeys:
    return ParkedKeys(store, clock, lambda _: None)


@pytest.fixture
def full(hub: Played, store: Store, sub: str) -> str:
    """A subscription with events 0 to 3 of which key a waits at 0 and 2, b at 1, and one without a key at 3."""
    open_stream(sessions_of(store), sub)
    hub.publish(0, 1, 2, 3, keys="aba.")
    with store.write() as tx:
        for at, key in enumerate(["a", "b", "a", None]):
            tx.subscriptions.park(sub, P, key, at, attempts=2, at=START_AT)
    move(store, sub, p0=4)
    return sub


def test_parked_keys_are_listed_in_the_order_of_parking(parking: ParkedKeys, store: Store, full: str) -> None:
    assert [(each.key, each.first, each.last, each.events) for each in parking.list(full)] == [
        ("a", 0, 2, 2), ("b", 1, 1, 1), (None, 3, 3, 1)
    ]  # fmt: skip
    assert parking.list(subscribe(store, "other")) == []


def test_first_events_of_a_parked_key_are_shown_without_removed_ones(
    parking: ParkedKeys, store: Store, full: str
) -> None:
    a, _, keyless = parking.list(full)

    assert parking.read_events(a, 9) == [(0, b'{"n":0}'), (2, b'{"n":2}')]
    assert parking.read_events(a, 1) == [(0, b'{"n":0}')]
    assert parking.read_events(keyless, 9) == [(3, b'{"n":3}')]
    remove_first_event(store)
    assert parking.read_events(a, 9) == [(2, b'{"n":2}')]


def test_one_or_all_parked_keys_are_retried_under_a_new_revision(parking: ParkedKeys, store: Store, full: str) -> None:
    sessions = sessions_of(store)
    before = sessions.snapshot(full).subscription.revision
    _, b, _ = parking.list(full)

    assert parking.retry(full, b.id) == 1
    assert [each.is_retried for each in parking.list(full)] == [False, True, False]
    assert parking.retry(full) == 3
    assert [each.is_retried for each in parking.list(full)] == [True] * 3
    assert sessions.snapshot(full).subscription.revision == before + 2
    assert parking.retry(subscribe(store, "other")) == 0


def test_skipped_key_waits_no_longer_and_is_recorded_with_its_reason(
    parking: ParkedKeys, store: Store, full: str
) -> None:
    a, _, keyless = parking.list(full)

    parking.skip(full, a.id, "broken by us")
    parking.skip(full, keyless.id, "broken, too")

    assert [each.key for each in parking.list(full)] == ["b"]
    with store.read() as tx:
        history = [each._replace(id=0) for each in tx.groups.list_changes(full, before=None, limit=9)]
    assert history == [
        PositionChange(NAME, "", 0, "skipped", 1, 3, 4, "broken, too", START_AT),
        PositionChange(NAME, "", 0, "skipped", 1, 0, 3, "broken by us (key a)", START_AT),
    ]


def test_keys_parked_for_too_long_are_skipped_and_recorded(
    parking: ParkedKeys, store: Store, full: str, clock: VirtualClock
) -> None:
    clock.advance(seconds=parked_keys.PARKED_SECONDS - 1)
    parking.expire(clock())
    assert len(parking.list(full)) == 3

    clock.advance(seconds=2)
    parking.expire(clock())

    assert parking.list(full) == []
    with store.read() as tx:
        reasons = {each.reason for each in tx.groups.list_changes(full, before=None, limit=9)}
    assert "nobody has retried or skipped it for too long (key a)" in reasons


def test_skipped_key_keeps_events_ahead_of_the_position_for_a_retry(
    parking: ParkedKeys, store: Store, full: str
) -> None:
    a = parking.list(full)[0]
    with store.write() as tx:
        tx.subscriptions.add_parked({a.id: [90, 91]})

    parking.skip(full, a.id, "broken by us")

    left = parking.find(full, a.id)
    assert (left.first, left.last, left.is_retried) == (90, 91, True)
    with store.read() as tx:
        [done] = tx.groups.list_changes(full, before=None, limit=9)
    assert (done.came_from, done.went_to) == (a.first, read_offsets(store, full)[0])


def test_unknown_parked_key_is_not_found(parking: ParkedKeys, store: Store, full: str) -> None:
    theirs, known = subscribe(store, "other"), parking.list(full)[0].id

    for act in (parking.find, parking.retry, lambda *which: parking.skip(*which, "why")):
        with pytest.raises(ParkedNotFound):
            act(theirs, known)
        with pytest.raises(ParkedNotFound):
            act(full, 999)
        with pytest.raises(SubscriptionNotFound):
            act("nobody", known)
    with pytest.raises(SubscriptionNotFound):
        parking.list("nobody")
    assert parking.find(full, known).key == "a"
    assert len(parking.list(full)) == 3
