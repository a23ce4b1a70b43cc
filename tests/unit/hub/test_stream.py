"""Streams by a clock that is moved by hand, over a store in which a test has its say."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.core.delivery import COMMIT_TIMEOUT
from penstock.errors import Blocked, DatabaseUnavailable
from penstock.hub.commits import Commit
from penstock.hub.look import LEASE_S
from penstock.hub.reasons import BLOCKED, DELETED, GIVEN_BACK, GROWN, RESETTING, STOPPING, TIME_OVER
from penstock.hub.stream import LIGHT_ROWS, PAUSE_S, WHOLE_ROWS, Stream
from penstock.storage import Store
from penstock.testing.store_contract import database_at
from tests.unit.hub.feeds import NAME
from tests.unit.hub.forwarding import ForwardingStore
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
def hub(forwarding: ForwardingStore) -> Iterator[Played]:
    played = Played(forwarding)
    yield played
    played.stop()


def commit(hub: Played, stream: Stream, position: int, place: tuple[str, int] = P) -> bool:
    """Commit in a stream what it was sent."""
    [moved] = hub.commits.submit(stream.subscription_id, stream.session_id, [Commit(place, position)]).result(300)
    return moved


@contextmanager
def away(hub: Played, *reads: int) -> Iterator[None]:
    """Let the database be away at those of the next reads, from 1."""
    before = hub.store.reads

    def fail(number: int) -> None:
        if number - before in reads:
            raise DatabaseUnavailable(reason="away", retry_after=1)

    hub.store.at_read = fail
    yield
    hub.store.at_read = lambda _: None


# What is sent


def test_what_is_there_is_sent_and_then_what_arrives(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    hub.publish(1, 2)
    stream = hub.stream(sub, batch_limit=1)
    assert deliver(stream) == ["0:1[1] Stream started", "0:2[2]"]
    assert not stream.unread

    hub.publish(3)
    hub.publish(4, partition=1)

    assert stream.unread
    assert deliver(stream) == ["0:3[3]", "1:1[4]"]


def test_a_step_goes_on_for_as_long_as_there_is_something_to_be_read(hub: Played, store: Store) -> None:
    """Else nothing would be read while what came before is being sent."""
    sub = subscribed(store)
    hub.publish(*range(1_600))
    hub.publish(*range(700), partition=1)
    stream = hub.stream(sub, batch_limit=WHOLE_ROWS, max_uncommitted=10_000)

    sent = [each for batches in stream.step() for each in batches]

    assert [(place, position, len(events)) for place, position, events, *_ in sent] == [
        (P, 500, 500), (Q, 500, 500), (P, 1_000, 500), (P, 1_500, 500)
    ]  # fmt: skip
    assert not stream.unread


def test_what_is_committed_while_a_step_lasts_is_in_time(hub: Played, store: Store) -> None:
    """A slow consumer may take longer for what a step sends than it has to commit."""
    sub = subscribed(store)
    hub.publish(1, 2)
    hub.publish(3, 4, partition=1)
    stream = hub.stream(sub, batch_limit=1, max_uncommitted=2, commit_s=5)
    step = stream.step()
    next(step)
    hub.now += 4
    stream.committed({P: 1})
    assert stream.commits_until == hub.now + 5
    hub.now += 2

    list(step)

    assert not stream.over
    hub.now += 5
    hub.live.renew()
    assert deliver(stream)[-1].endswith(COMMIT_TIMEOUT)


def test_a_lease_that_is_extended_while_a_step_lasts_is_heard_of(hub: Played, store: Store) -> None:
    stream = hub.stream(subscribed(store), commit_s=5)
    deliver(stream)
    hub.sessions.extend(stream.subscription_id, stream.session_id)
    stream.changed()
    hub.now += 3

    assert stream.interrupted() is None
    assert stream.commits_until == hub.now + 5
    hub.now += 1
    assert stream.interrupted() is None
    assert stream.commits_until == hub.now + 4, "that was heard before"


def test_it_is_woken_by_what_arrives_and_by_what_is_committed(hub: Played, store: Store) -> None:
    stream = hub.stream(subscribed(store))
    deliver(stream)
    woken: list[str] = []
    stream.on_wake(lambda: woken.append("woken"))
    for act in (lambda: hub.publish(1), lambda: deliver(stream), lambda: stream.committed({P: 1}), stream.changed):
        act()

    assert woken == ["woken"] * 3


def test_only_what_it_was_sent_can_be_committed(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    hub.publish(1, 2, 3)
    stream = hub.stream(sub, batch_limit=2)
    deliver(stream)
    assert [stream.was_sent(P, each) for each in (2, 3)] == [True, False]
    assert stream.was_sent(("nothing", 0), 0) is False

    assert commit(hub, stream, 2)

    assert (stream.epoch(NAME), read_offsets(store, sub)) == (1, [2, 0])


def test_partitions_go_to_another_stream_once_all_is_committed(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    hub.publish(1)
    hub.publish(2, partition=1)
    first = hub.stream(sub, batch_limit=1)
    deliver(first)
    second = hub.stream(sub, Q, batch_limit=1)
    hub.live.changed(sub)
    hub.publish(3, partition=1)
    assert deliver(first) == []
    assert deliver(second) == []

    commit(hub, first, 1, Q)
    assert deliver(first, light=True) == []
    assert first.unread
    assert deliver(first) == []
    assert read_owners(store, sub) == [first.session_id, second.session_id]

    assert deliver(second) == ["1:2[3] Stream started"]
    hub.publish(4, partition=1)
    assert deliver(first) == []


def test_what_is_left_uncommitted_is_sent_again_to_the_next(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    hub.publish(1, 2, 3)
    first = hub.stream(sub, batch_limit=1)
    deliver(first)
    commit(hub, first, 1)
    deliver(first)
    hub.now += 61
    hub.live.renew()
    assert deliver(first)[-1:] == ["0:3[] Commit timeout reached"]
    first.close()

    second = hub.stream(sub, batch_limit=1)

    assert deliver(second) == ["0:2[2] Stream started", "0:3[3]"]


# What it costs


def test_a_light_step_never_asks_the_store(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)

    def never(_: int) -> None:
        raise AssertionError("the store was asked")

    hub.store.at_read = hub.store.at_write = never
    assert (stream.unread, stream.needs(), deliver(stream, light=True)) == (False, None, [])
    hub.store.at_read = hub.store.at_write = lambda _: None
    hub.publish(1)
    hub.store.at_read = hub.store.at_write = never
    assert deliver(stream, light=True) == []
    stream.committed({P: 0})
    stream.changed()
    assert deliver(stream, light=True) == []
    assert stream.unread, "what was left is done by the next step"
    hub.store.at_read = hub.store.at_write = lambda _: None

    assert deliver(stream) == ["0:1[1] Stream started"]


def test_what_has_to_be_read_is_known_before_it_is_read(hub: Played, store: Store) -> None:
    """Who sends it asks whether a step takes time, and has another thread do it then."""
    sub = subscribed(store, partitions=1)
    stream = hub.stream(sub)
    assert stream.needs() is not None, "it has to look first"
    deliver(stream)
    assert stream.needs() is None

    hub.publish(1)

    assert stream.needs() == ((P, 0, 1),)


def test_streams_that_wait_at_one_place_share_what_one_of_them_has_read(hub: Played, store: Store) -> None:
    ids = [subscribed(store, partitions=1), subscribe(store, "other"), subscribe(store, "third")]
    streams = [hub.stream(sub, batch_limit=1) for sub in ids]
    assert len({stream.needs() for stream in streams}) == 3, "each has its own look"
    assert all(deliver(stream) == [] for stream in streams)
    hub.publish(1, 2)
    before = hub.store.reads

    assert {stream.needs() for stream in streams} == {((P, 0, 2),)}
    assert deliver(streams[0]) == ["0:1[1] Stream started", "0:2[2]"]
    assert [stream.needs() for stream in streams] == [None] * 3
    assert [deliver(stream, light=True) for stream in streams[1:]] == [["0:1[1] Stream started", "0:2[2]"]] * 2

    assert hub.store.reads == before + 1


@pytest.mark.parametrize("rules", [{"timespan_s": 5.0}, {"count": LIGHT_ROWS + 1}], ids=["each is looked at", "many"])
def test_what_is_much_work_is_not_shared(hub: Played, store: Store, rules: dict[str, Any]) -> None:
    count = rules.pop("count", 1)
    stream = hub.stream(subscribed(store, partitions=1), **rules)
    deliver(stream)

    hub.publish(*range(count))

    first, second = stream.needs(), stream.needs()
    assert first is not None
    assert first != second


# A database that is away


@pytest.mark.parametrize("read", [1, 2, 3], ids=["at the look", "while it loads its partitions", "at the events"])
def test_a_look_that_fails_is_done_again(hub: Played, store: Store, read: int) -> None:
    sub = subscribed(store)
    hub.publish(1)
    stream = hub.stream(sub, batch_limit=1)

    with away(hub, read), pytest.raises(DatabaseUnavailable):
        deliver(stream)

    assert stream.unread
    assert stream.needs() is not None
    assert deliver(stream) == ["0:1[1] Stream started"]
    assert not stream.over


def test_partitions_that_come_later_are_loaded_though_the_database_was_away(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    first, second = hub.stream(sub), hub.stream(sub, Q, batch_limit=1)
    deliver(first), deliver(second)
    hub.publish(1, partition=1)
    first.end("left")
    first.close()

    with away(hub, 2), pytest.raises(DatabaseUnavailable):
        deliver(second)

    assert deliver(second) == ["1:1[1] Stream started"]


def test_what_was_read_before_the_database_went_away_is_sent_once(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    hub.publish(1)
    hub.publish(2, partition=1)
    stream = hub.stream(sub, batch_limit=1)
    with away(hub, 4):
        step = stream.step()
        assert [list(each.events) for each in next(step)] == [[b'{"n":1}']]
        with pytest.raises(DatabaseUnavailable):
            list(step)

    assert deliver(stream) == ["1:1[2]"]


def test_nothing_is_sent_once_the_lease_is_over_and_all_goes_on_once_it_holds(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    hub.publish(1)
    hub.now += LEASE_S

    assert (deliver(stream), stream.unread, stream.over) == ([], False, False)
    assert stream.idle_seconds > 0, "it does not ask again and again meanwhile"

    hub.live.renew()
    assert stream.unread
    assert deliver(stream) == ["0:1[1] Stream started"]


@pytest.mark.parametrize(
    "what", ["the lease is over", "the lease was over", "something has changed long ago", "it has ended"]
)
def test_in_the_midst_of_a_step_nothing_more_is_sent_once(hub: Played, store: Store, what: str) -> None:
    """A slow consumer makes a step last long."""
    stream = hub.stream(subscribed(store), batch_limit=1)
    hub.publish(1, 2)
    hub.publish(3, 4, partition=1)
    step = stream.step()
    sent = [next(step)]
    if "lease" in what:
        hub.now += LEASE_S
        if what == "the lease was over":
            hub.live.renew()
            hub.now -= LEASE_S  # The lease's clock goes on while the machine sleeps, and this one need not.
    elif what == "it has ended":
        stream.end("left")
    else:
        stream.changed()
        hub.now += PAUSE_S / 2
        sent.append(next(step))
        assert sum(len(batches) for batches in sent) == 2, "it has looked just before"
        hub.now += PAUSE_S

    sent += step

    assert sum(len(batches) for batches in sent) == (2 if what == "something has changed long ago" else 1)


def test_one_that_others_count_as_gone_meanwhile_ends(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    stream = hub.stream(sub)
    deliver(stream)
    hub.now += LEASE_S
    lose_hub(store.url)
    other = Played(store, "other")
    theirs = other.stream(sub)
    assert read_owners(store, sub) == [theirs.session_id]

    hub.live.renew()

    assert deliver(stream) == [f"0:0[] {TIME_OVER}"]
    stream.close()
    assert read_owners(store, sub) == [theirs.session_id]
    other.stop()


def test_one_that_has_lost_some_meanwhile_ends_and_the_rest_may_still_be_committed(hub: Played, store: Store) -> None:
    sub = subscribed(store)
    hub.publish(1)
    hub.publish(2, partition=1)
    stream = hub.stream(sub, batch_limit=1)
    deliver(stream)
    hub.now += LEASE_S
    lose_hub(store.url)
    other = Played(store, "other")
    theirs = other.stream(sub, P)
    hub.live.renew()

    assert deliver(stream) == [f"0:1[] {TIME_OVER}"]
    stream.close()

    assert read_owners(store, sub) == [theirs.session_id, stream.session_id]
    assert [slot.failed for slot in read_slots(store, sub)][1] == 1
    assert commit(hub, stream, 1, Q)
    assert (read_offsets(store, sub), read_owners(store, sub)) == ([0, 1], [theirs.session_id, None])
    other.stop()


def test_a_hub_that_is_cut_off_for_long_ends_its_streams_when_their_time_is_over(hub: Played, store: Store) -> None:
    stream = hub.stream(subscribed(store, partitions=1), batch_limit=1, commit_s=30)
    hub.publish(1, 2)
    deliver(stream)
    hub.now += LEASE_S
    hub.publish(3)
    assert (deliver(stream), stream.over) == ([], False)
    hub.now += 30

    assert deliver(stream) == [f"0:2[] {COMMIT_TIMEOUT}"]


def test_after_a_lease_was_over_who_shares_out_just_now_is_waited_for(hub: Played, store: Store) -> None:
    """Who counts the hub as gone may have begun before the hub was seen again, and end after."""
    sub = subscribed(store, partitions=1)
    stream = hub.stream(sub)
    deliver(stream)
    hub.publish(1)
    hub.now += LEASE_S
    hub.live.renew()
    with ThreadPoolExecutor(1) as pool:
        with store.write() as tx:
            assert tx.subscriptions.lock(sub) is not None
            step = pool.submit(deliver, stream)
            with pytest.raises(TimeoutError):
                step.result(0.2)
            tx.subscriptions.close([stream.session_id])
            tx.subscriptions.put(sub, [each._replace(owner="another") for each in tx.subscriptions.slots(sub)])

        assert step.result(300) == [f"0:0[] {TIME_OVER}"]


# Events that are gone


def remove(store: Store, below: int) -> None:
    """Let retention remove the first events."""
    database_at(store.url).run("UPDATE penstock_partition SET floor = ?", below)
    database_at(store.url).run('DELETE FROM penstock_event WHERE "offset" < ?', below)


@pytest.mark.parametrize("when", ["before it looks", "after it has looked"])
def test_what_retention_has_removed_is_skipped_and_counted(hub: Played, store: Store, when: str) -> None:
    sub = subscribed(store, partitions=1)
    hub.publish(*range(5))
    stream = hub.stream(sub)
    if when == "before it looks":
        remove(store, 3)
    else:
        hub.store.at_read = lambda _: remove(store, 3) if hub.store.reads == 3 + skipped else None
        skipped = hub.store.reads

    assert deliver(stream) == []
    hub.store.at_read = lambda _: None
    hub.now += 30
    hub.live.renew()

    skips = "skipped events due to retention time passed, count: 3"
    assert deliver(stream) == [f"0:5[3 4] Stream started; {skips}"]


# Its end


def test_nothing_says_that_it_is_to_end_while_nobody_can_be_asked(hub: Played, store: Store) -> None:
    stream = hub.stream(subscribed(store))
    deliver(stream)
    stream.changed()
    assert stream.interrupted() is None, "that was no end"
    with away(hub, 1):
        assert stream.interrupted() is None


def test_it_ends_for_every_reason_that_others_give(hub: Played, store: Store) -> None:
    reasons = [RESETTING, TIME_OVER, GIVEN_BACK, GROWN, DELETED]
    ended, interrupted = [], []
    for n in range(5):
        sub = subscribe(store, f"group {n}") if n else subscribed(store, partitions=1)
        stream = hub.stream(sub)
        deliver(stream)
        with store.write() as tx:
            if n == 0:
                tx.subscriptions.reset_until(sub, 1 << 60)
            elif n == 1:
                tx.subscriptions.close([stream.session_id])
            elif n == 2:
                tx.subscriptions.hold(stream.session_id, 1 << 60)
            elif n == 3:
                [slot] = tx.subscriptions.slots(sub)
                tx.subscriptions.begin(sub, [slot._replace(place=Q)], 0)
            else:
                tx.subscriptions.delete(sub)
        assert deliver(stream) == [], "nobody has told it yet"
        assert stream.interrupted() is None, "nor does it ask"
        stream.changed()
        interrupted.append(stream.interrupted())
        assert not stream.over, "a step may be under way"
        ended += deliver(stream)
        assert (stream.over, deliver(stream)) == (True, [])
        stream.close()

    assert ended == [f"0:0[] {each}" for each in reasons]
    assert interrupted == reasons


@pytest.mark.parametrize("reason", [RESETTING, TIME_OVER, GIVEN_BACK, GROWN, DELETED, BLOCKED, STOPPING])
def test_it_says_why_it_ends_before_it_has_looked_at_all(hub: Played, store: Store, reason: str) -> None:
    sub, may = subscribed(store, partitions=1), [True]
    hub.publish(1)

    def allowed() -> None:
        if not may[0]:
            raise Blocked(reason="blocked")

    stream = hub.stream(sub, batch_limit=1, allowed=allowed)
    with store.write() as tx:
        if reason == RESETTING:
            tx.subscriptions.reset_until(sub, 1 << 60)
        elif reason == TIME_OVER:
            tx.subscriptions.close([stream.session_id])
        elif reason == GIVEN_BACK:
            tx.subscriptions.hold(stream.session_id, 1 << 60)
        elif reason == GROWN:
            [slot] = tx.subscriptions.slots(sub)
            tx.subscriptions.begin(sub, [slot._replace(place=Q)], 0)
        elif reason == DELETED:
            tx.subscriptions.delete(sub)
    may[0] = reason != BLOCKED
    if reason == STOPPING:
        hub.hub.drain()

    assert deliver(stream) == [f"0:0[] {reason}"]
    assert (stream.over, stream.epoch(NAME)) == (True, 1)


def test_it_ends_when_its_reader_may_no_longer_read_or_the_hub_stops(hub: Played, store: Store) -> None:
    sub, may = subscribed(store), [True]

    def allowed() -> None:
        if not may[0]:
            raise Blocked(reason="blocked")

    stream, other = hub.stream(sub, allowed=allowed), hub.stream(sub)
    deliver(stream), deliver(other)
    assert stream.interrupted() is None
    may[0] = False
    assert stream.interrupted() == BLOCKED
    assert deliver(stream) == [f"0:0[] {BLOCKED}"]
    assert other.interrupted() is None
    hub.hub.drain()
    assert other.interrupted() == STOPPING
    assert deliver(other) == [f"1:0[] {STOPPING}"]


def test_what_it_leaves_can_be_committed_as_long_as_there_was_time(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    hub.publish(1)
    stream = hub.stream(sub, batch_limit=1, commit_s=60)
    deliver(stream)
    hub.now += 20
    stream.end("left")
    stream.close()

    [session] = hub.sessions.look(sub).sessions
    with store.read() as tx:
        now = tx.subscriptions.now()
    assert session.holds_until is not None
    assert 39 < (session.holds_until - now) / 1e6 <= 40
    assert commit(hub, stream, 1)
    assert hub.sessions.look(sub).sessions == []


def test_one_that_cannot_tell_that_it_has_ended_can_be_closed_again(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    stream = hub.stream(sub)
    deliver(stream)

    def fail(_: int) -> None:
        raise DatabaseUnavailable(reason="away", retry_after=1)

    hub.store.at_write = fail
    with pytest.raises(DatabaseUnavailable):
        stream.close()
    assert read_owners(store, sub) == [stream.session_id]
    hub.store.at_write = lambda _: None
    stream.close()

    assert read_owners(store, sub) == [None]


def test_a_commit_by_another_hub_is_found_by_a_look(hub: Played, store: Store) -> None:
    sub = subscribed(store, partitions=1)
    hub.publish(1, 2, 3)
    stream = hub.stream(sub, batch_limit=1, max_uncommitted=1)
    assert deliver(stream) == ["0:1[1] Stream started"]
    move(store, sub, p0=2)
    with store.write() as tx:
        tx.subscriptions.revise(sub)
    assert deliver(stream) == []

    with store.read() as tx:
        assert hub.live.look(tx)

    assert deliver(stream) == ["0:3[3]"]
