"""Streams of subscriptions, by a clock that is moved by hand and over a store that a test can interfere with."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.delivery import COMMIT_TIMEOUT
from penstock.errors import Blocked, DatabaseUnavailable
from penstock.hub.subscriptions.commits import CursorCommit
from penstock.hub.subscriptions.consumer_stream import LIGHT_ROWS, PAUSE_SECONDS, WHOLE_ROWS, ConsumerStream
from penstock.hub.subscriptions.sessions import (
    BLOCKED,
    DELETED,
    LEASE_EXPIRED,
    LEASE_SECONDS,
    RELEASED,
    REPARTITIONED,
    RESETTING,
    STOPPING,
)
from penstock.hub.subscriptions.slots import get_subscription, put_slots
from penstock.storage import Store
from tests.store_contract import database_at
from tests.unit.hub.feeds import NAME
from tests.unit.hub.forwarding import fail, fail_at
from tests.unit.hub.subscribing import (
    P,
    Played,
    Q,
    deliver,
    lose_hub,
    move,
    read_offsets,
    read_owners,
    read_slots,
    subscribe,
    subscribed,
)


@pytest.fixture
def other(store: Store) -> Iterator[Played]:
    """Another hub on the same database."""
    played = Played(store, "other")
    yield played
    played.stop()


def commit(hub: Played, stream: ConsumerStream, position: int, place: FeedPartition = P) -> bool:
    """Commit in a stream the events that it was sent."""
    [moved] = hub.commits.submit(stream.subscription_id, stream.session_id, [CursorCommit(place, position)]).result(300)
    return moved


@contextmanager
def fail_reads(hub: Played, *reads: int) -> Iterator[None]:
    """Let the database be away at those of the next reads, from 1."""
    hub.store.at_read = fail_at(*reads, after=hub.store.reads)
    yield
    hub.store.at_read = lambda _: None


def refuse(_: int) -> None:
    raise AssertionError("the store was asked")


# What is sent


def test_stored_events_are_sent_and_then_arriving_ones(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    hub.publish(1, 2)
    stream = hub.stream(sub, batch_limit=1)
    assert deliver(stream) == ["0:1[1] Stream started", "0:2[2]"]
    assert not stream.has_work

    hub.publish(3)
    hub.publish(4, partition=1)

    assert stream.has_work
    assert deliver(stream) == ["0:3[3]", "1:1[4]"]


def test_step_continues_while_there_are_events(hub: Played, store: Store) -> None:
    """Otherwise nothing would be read while the events before are being sent."""
    sub = subscribed(store)
    hub.publish(*range(1_600))
    hub.publish(*range(700), partition=1)
    stream = hub.stream(sub, batch_limit=WHOLE_ROWS, max_uncommitted=10_000)

    sent = [each for batches in stream.step() for each in batches]

    assert [(place, position, len(events)) for place, position, events, *_ in sent] == [
        (P, 500, 500), (Q, 500, 500), (P, 1_000, 500), (P, 1_500, 500)
    ]  # fmt: skip
    assert not stream.has_work


def test_commit_during_a_step_is_in_time(hub: Played, store: Store) -> None:
    """A slow consumer may take longer for the events of a step than it has to commit."""
    sub = subscribed(store)
    hub.publish(1, 2)
    hub.publish(3, 4, partition=1)
    stream = hub.stream(sub, batch_limit=1, max_uncommitted=2, commit_timeout=5)
    step = stream.step()
    next(step)
    hub.now += 4
    stream.note_committed({P: 1})
    assert stream.commits_until == hub.now + 5
    hub.now += 2

    list(step)

    assert not stream.is_over
    hub.now += 5
    hub.lease.renew()
    assert deliver(stream)[-1].endswith(COMMIT_TIMEOUT)


def test_extension_during_a_step_counts_once(hub: Played, store: Store) -> None:
    stream = hub.stream(subscribed(store), commit_timeout=5)
    deliver(stream)
    hub.sessions.extend(stream.subscription_id, stream.session_id)
    stream.note_changed()
    hub.now += 3

    assert stream.find_interruption() is None
    assert stream.commits_until == hub.now + 5
    hub.now += 1
    assert stream.find_interruption() is None
    assert stream.commits_until == hub.now + 4, "that was heard before"


def test_stream_is_woken_by_arrivals_commits_and_changes(hub: Played, store: Store) -> None:
    stream = hub.stream(subscribed(store))
    deliver(stream)
    woken: list[str] = []
    stream.on_wake(lambda: woken.append("woken"))
    for act in (
        lambda: hub.publish(1),
        lambda: deliver(stream),
        lambda: stream.note_committed({P: 1}),
        stream.note_changed,
    ):
        act()

    assert woken == ["woken"] * 3


def test_stream_knows_the_positions_that_it_was_sent(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    hub.publish(1, 2, 3)
    stream = hub.stream(sub, batch_limit=2)
    deliver(stream)

    assert [stream.has_sent(P, each) for each in (2, 3)] == [True, False]
    assert stream.has_sent(("nothing", 0), 0) is False
    assert commit(hub, stream, 2)
    assert (stream.epoch(NAME), read_offsets(store, sub)) == (1, [2, 0])


def test_partition_goes_to_another_stream_once_all_sent_events_are_committed(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    hub.publish(1)
    hub.publish(2, partition=1)
    first = hub.stream(sub, batch_limit=1)
    deliver(first)
    second = hub.stream(sub, Q, batch_limit=1)
    hub.local_streams.notify_changed(sub)
    hub.publish(3, partition=1)
    assert [deliver(first), deliver(second)] == [[], []]

    commit(hub, first, 1, Q)
    assert deliver(first, light=True) == []
    assert first.has_work
    assert deliver(first) == []
    assert read_owners(store, sub) == [first.session_id, second.session_id]

    assert deliver(second) == ["1:2[3] Stream started"]
    hub.publish(4, partition=1)
    assert deliver(first) == []


def test_uncommitted_events_are_sent_again_to_the_next_stream(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    hub.publish(1, 2, 3)
    first = hub.stream(sub, batch_limit=1)
    deliver(first)
    commit(hub, first, 1)
    deliver(first)
    hub.now += 61
    hub.lease.renew()
    assert deliver(first)[-1:] == ["0:3[] Commit timeout reached"]
    first.close()

    assert deliver(hub.stream(sub, batch_limit=1)) == ["0:2[2] Stream started", "0:3[3]"]


def test_commit_by_another_hub_is_found_by_a_look(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    hub.publish(1, 2, 3)
    stream = hub.stream(sub, batch_limit=1, max_uncommitted=1)
    assert deliver(stream) == ["0:1[1] Stream started"]
    move(store, sub, p0=2)
    with store.write() as tx:
        tx.subscriptions.revise(sub)
    assert deliver(stream) == []

    with store.read() as tx:
        assert hub.local_streams.poll(tx)

    assert deliver(stream) == ["0:3[3]"]


@pytest.mark.parametrize("when", ["before it looks", "after it has looked"])
def test_events_removed_by_retention_are_skipped_and_counted(hub: Played, store: Store, when: str) -> None:
    def remove() -> None:
        database_at(store.url).run("UPDATE penstock_partition SET floor = 3")
        database_at(store.url).run('DELETE FROM penstock_event WHERE "offset" < 3')

    sub = subscribed(store, partitions=1)
    hub.publish(*range(5))
    stream = hub.stream(sub)
    if when == "before it looks":
        remove()
    else:
        third = hub.store.reads + 3
        hub.store.at_read = lambda number: remove() if number == third else None

    assert deliver(stream) == []
    hub.store.at_read = lambda _: None
    hub.now += 30
    hub.lease.renew()

    skips = "skipped events due to retention time passed, count: 3"
    assert deliver(stream) == [f"0:5[3 4] Stream started; {skips}"]


# What it costs


def test_light_step_never_asks_the_store(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)

    hub.store.at_read = hub.store.at_write = refuse
    assert (stream.has_work, stream.read_key(), deliver(stream, light=True)) == (False, None, [])
    hub.store.at_read = hub.store.at_write = lambda _: None
    hub.publish(1)
    hub.store.at_read = hub.store.at_write = refuse
    assert deliver(stream, light=True) == []
    stream.note_committed({P: 0})
    stream.note_changed()
    assert deliver(stream, light=True) == []
    assert stream.has_work, "the next step does the rest"
    hub.store.at_read = hub.store.at_write = lambda _: None

    assert deliver(stream) == ["0:1[1] Stream started"]


def test_needed_reads_are_known_before_a_step_and_shared_by_streams_at_one_place(hub: Played, store: Store) -> None:
    ids = [subscribed(store, partitions=1), subscribe(store, "other"), subscribe(store, "third")]
    streams = [hub.stream(sub, batch_limit=1) for sub in ids]
    assert len({stream.read_key() for stream in streams} - {None}) == 3, "each has its own look"
    assert all(deliver(stream) == [] for stream in streams)
    assert [stream.read_key() for stream in streams] == [None] * 3
    hub.publish(1, 2)
    before = hub.store.reads

    assert {stream.read_key() for stream in streams} == {((P, 0, 2),)}
    assert deliver(streams[0]) == ["0:1[1] Stream started", "0:2[2]"]
    assert [stream.read_key() for stream in streams] == [None] * 3
    assert [deliver(stream, light=True) for stream in streams[1:]] == [["0:1[1] Stream started", "0:2[2]"]] * 2

    assert hub.store.reads == before + 1


@pytest.mark.parametrize(
    "rules", [{"timespan_seconds": 5.0}, {"count": LIGHT_ROWS + 1}], ids=["each is looked at", "many"]
)
def test_expensive_reads_are_not_shared(hub: Played, store: Store, rules: dict[str, Any]) -> None:
    rules = dict(rules)
    count = rules.pop("count", 1)
    stream = hub.stream(subscribed(store, partitions=1), **rules)
    deliver(stream)

    hub.publish(*range(count))

    first, second = stream.read_key(), stream.read_key()
    assert first is not None
    assert first != second


# A database that is away


@pytest.mark.parametrize("read", [1, 2, 3], ids=["at the look", "at the partitions", "at the events"])
def test_failed_look_is_repeated(hub: Played, store: Store, read: int) -> None:
    sub = subscribed(store)
    hub.publish(1)
    stream = hub.stream(sub, batch_limit=1)

    with fail_reads(hub, read), pytest.raises(DatabaseUnavailable):
        deliver(stream)

    assert stream.has_work
    assert stream.read_key() is not None
    assert deliver(stream) == ["0:1[1] Stream started"]
    assert not stream.is_over


def test_added_partitions_are_loaded_after_an_outage(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    first, second = hub.stream(sub), hub.stream(sub, Q, batch_limit=1)
    deliver(first), deliver(second)
    hub.publish(1, partition=1)
    first.end("left")
    first.close()

    with fail_reads(hub, 2), pytest.raises(DatabaseUnavailable):
        deliver(second)

    assert deliver(second) == ["1:1[1] Stream started"]


def test_events_read_before_an_outage_are_sent_once(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    hub.publish(1)
    hub.publish(2, partition=1)
    stream = hub.stream(sub, batch_limit=1)
    with fail_reads(hub, 4):
        step = stream.step()
        assert [list(each.events) for each in next(step)] == [[b'{"n":1}']]
        with pytest.raises(DatabaseUnavailable):
            list(step)

    assert deliver(stream) == ["1:1[2]"]


# A lease that is over


def lapse(hub: Played, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Let the hub's lease be over and begin again, and other hubs do something between."""
    hub.now += LEASE_SECONDS
    meanwhile()
    hub.lease.renew()


def test_no_event_is_sent_after_the_lease_until_it_holds_again(hub: Played, store: Store) -> None:
    stream = hub.stream(subscribed(store), batch_limit=1)
    deliver(stream)
    hub.publish(1)
    assert stream.is_certain
    hub.now += LEASE_SECONDS

    assert (deliver(stream), stream.has_work, stream.is_over) == ([], False, False)
    assert (stream.is_certain, stream.find_interruption()) == (False, None)
    assert stream.idle_seconds > 0, "it does not ask again and again meanwhile"

    hub.lease.renew()
    assert stream.has_work
    assert deliver(stream) == ["0:1[1] Stream started"]


@pytest.mark.parametrize("event", ["lease is over", "lease was over", "changed long ago", "ended"])
def test_no_more_events_are_sent_in_the_midst_of_a_step(hub: Played, store: Store, event: str) -> None:
    """A slow consumer makes a step last long."""
    stream = hub.stream(subscribed(store), batch_limit=1)
    hub.publish(1, 2)
    hub.publish(3, 4, partition=1)
    step = stream.step()
    sent = [next(step)]
    if "lease" in event:
        hub.now += LEASE_SECONDS
        if event == "lease was over":
            hub.lease.renew()
            hub.now -= LEASE_SECONDS  # The lease's clock goes on while the machine sleeps, and this one need not.
    elif event == "ended":
        stream.end("left")
    else:
        stream.note_changed()
        hub.now += PAUSE_SECONDS / 2
        sent.append(next(step))
        assert sum(len(batches) for batches in sent) == 2, "it has looked just before"
        hub.now += PAUSE_SECONDS

    sent += step

    assert sum(len(batches) for batches in sent) == (2 if event == "changed long ago" else 1)


def test_stream_is_certain_after_a_lapse_once_it_knows_its_partitions(hub: Played, store: Store) -> None:
    stream = hub.stream(subscribed(store))
    deliver(stream)
    lapse(hub)
    assert not stream.is_certain
    hub.store.at_write = fail
    assert stream.find_interruption() is None
    assert not stream.is_certain, "the database is away"
    hub.store.at_write = lambda _: setattr(hub.lease, "lapses", hub.lease.lapses + 1)
    assert stream.find_interruption() is None
    assert not stream.is_certain, "there was another lapse while it looked"
    hub.store.at_write = lambda _: None

    assert stream.find_interruption() is None

    assert stream.is_certain
    hub.store.at_write = refuse
    assert stream.find_interruption() is None, "it looks without a lock"
    deliver(stream)
    hub.store.at_read = refuse
    assert stream.find_interruption() is None, "nothing has changed since"


@pytest.mark.parametrize("taken", [(P, Q), (P,), (Q,)], ids=["both", "first", "second"])
@pytest.mark.parametrize("is_back", [False, True], ids=["kept", "come back"])
def test_stream_ends_after_others_had_any_of_its_partitions(
    hub: Played, other: Played, store: Store, *, taken: tuple[FeedPartition, ...], is_back: bool
) -> None:
    """Others may have been sent, and have committed, the events that it was about to be sent."""
    sub = subscribed(store)
    stream = hub.stream(sub)
    deliver(stream)

    def take() -> None:
        lose_hub(store.url)
        theirs = other.stream(sub, *taken)
        if is_back:
            theirs.end("left")
            theirs.close()

    lapse(hub, take)

    assert stream.find_interruption() == LEASE_EXPIRED
    assert not stream.is_certain
    assert deliver(stream) == [f"0:0[] {LEASE_EXPIRED}"]


def test_stream_that_has_lost_a_partition_may_still_commit_the_others(hub: Played, other: Played, store: Store) -> None:
    sub = subscribed(store)
    hub.publish(1)
    hub.publish(2, partition=1)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    theirs: list[ConsumerStream] = []
    lapse(hub, lambda: (lose_hub(store.url), theirs.append(other.stream(sub, P))))

    assert deliver(stream) == [f"0:1[] {LEASE_EXPIRED}"]
    stream.close()

    assert read_owners(store, sub) == [theirs[0].session_id, stream.session_id]
    assert [slot.failed for slot in read_slots(store, sub)][1] == 1
    assert commit(hub, stream, 1, Q)
    assert (read_offsets(store, sub), read_owners(store, sub)) == ([0, 1], [theirs[0].session_id, None])


def test_streams_of_a_hub_that_is_cut_off_end_when_their_time_is_over(hub: Played, store: Store) -> None:
    stream = hub.stream(subscribed(store, partitions=1), batch_limit=1, commit_timeout=30)
    hub.publish(1, 2)
    deliver(stream)
    hub.now += LEASE_SECONDS
    hub.publish(3)
    assert (deliver(stream), stream.is_over) == ([], False)
    hub.now += 30

    assert deliver(stream) == [f"0:2[] {COMMIT_TIMEOUT}"]


@pytest.mark.parametrize("ask", [deliver, ConsumerStream.find_interruption], ids=["a step", "in the midst of one"])
def test_stream_waits_after_a_lapse_for_a_hub_that_shares_out(hub: Played, store: Store, ask: Any) -> None:
    """That hub may have begun before this one was seen again, and end after it."""
    sub = subscribed(store, partitions=1)
    stream = hub.stream(sub)
    deliver(stream)
    hub.publish(1)
    lapse(hub)
    with ThreadPoolExecutor(1) as pool:
        with store.write() as tx:
            assert tx.subscriptions.find(sub, lock=True) is not None
            answer = pool.submit(ask, stream)
            with pytest.raises(TimeoutError):
                answer.result(0.1)
            tx.subscriptions.delete_sessions([stream.session_id])
            tx.subscriptions.put_slots(
                sub, [each._replace(owner="another") for each in tx.subscriptions.list_slots(sub)]
            )

        assert answer.result(300) in (LEASE_EXPIRED, [f"0:0[] {LEASE_EXPIRED}"])


# The end of a stream


REASONS = (RESETTING, LEASE_EXPIRED, RELEASED, REPARTITIONED, DELETED, BLOCKED, STOPPING)


def begin_to_end(hub: Played, reason: str, *, has_looked: bool) -> ConsumerStream:
    """Begin a stream of one partition and do what ends it: after its first look, or while an event waits for that."""
    sub, blocked = subscribed(hub.store, partitions=1), list[Blocked]()

    def check() -> None:
        for each in blocked:
            raise each

    stream = hub.stream(sub, batch_limit=1, check_access=check)
    if has_looked:
        deliver(stream)
        assert stream.find_interruption() is None
    else:
        hub.publish(1)
    if reason == BLOCKED:
        blocked.append(Blocked(reason="blocked"))
    elif reason == STOPPING:
        hub.hub.drain()
    with hub.store.write() as tx:
        if reason == RESETTING:
            subscription = get_subscription(tx, sub, lock=True)
            tx.subscriptions.update(subscription._replace(resetting_until=1 << 60))
        elif reason == LEASE_EXPIRED:
            tx.subscriptions.delete_sessions([stream.session_id])
        elif reason == RELEASED:
            [session] = tx.subscriptions.list_sessions(sub)
            tx.subscriptions.put_session(session._replace(holds_until=1 << 60))
        elif reason == REPARTITIONED:
            [slot] = tx.subscriptions.list_slots(sub)
            put_slots(tx, sub, [slot._replace(place=Q)], 0)
        elif reason == DELETED:
            tx.groups.delete(sub)
    return stream


@pytest.mark.parametrize("reason", REASONS)
def test_stream_ends_for_its_reason_once_it_hears_of_it(hub: Played, reason: str) -> None:
    stream = begin_to_end(hub, reason, has_looked=True)
    if reason not in (BLOCKED, STOPPING):
        assert (deliver(stream), stream.find_interruption()) == ([], None), "it has not heard of it, nor does it ask"
        stream.note_changed()
        with fail_reads(hub, 1):
            assert stream.find_interruption() is None, "the database is away"

    assert stream.find_interruption() == reason
    assert not stream.is_over, "a step may be under way"

    assert deliver(stream) == [f"0:0[] {reason}"]
    assert (stream.is_over, deliver(stream)) == (True, [])


@pytest.mark.parametrize("reason", REASONS)
def test_stream_ends_for_its_reason_before_its_first_look(hub: Played, reason: str) -> None:
    stream = begin_to_end(hub, reason, has_looked=False)

    assert deliver(stream) == [f"0:0[] {reason}"]
    assert (stream.is_over, stream.epoch(NAME)) == (True, 1)


def test_ended_stream_may_commit_in_the_time_that_it_had_left(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    hub.publish(1)
    stream = hub.stream(sub, batch_limit=1, commit_timeout=6000)
    deliver(stream)
    hub.now += 2000
    stream.end("left")
    stream.close()

    [session] = hub.sessions.snapshot(sub).sessions
    with store.read() as tx:
        now = tx.now()
    assert session.holds_until is not None
    assert 3000 < (session.holds_until - now) / 1e6 <= 4000
    assert commit(hub, stream, 1)
    assert hub.sessions.snapshot(sub).sessions == []


def test_stream_that_could_not_be_closed_can_be_closed_again(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    stream = hub.stream(sub)
    deliver(stream)

    hub.store.at_write = fail
    with pytest.raises(DatabaseUnavailable):
        stream.close()
    assert read_owners(store, sub) == [stream.session_id]
    hub.store.at_write = lambda _: None
    stream.close()

    assert read_owners(store, sub) == [None]
