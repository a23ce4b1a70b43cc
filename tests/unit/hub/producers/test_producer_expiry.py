"""Producers expire, their batches are forgotten, and the sweeper removes both in the background."""

import threading
from collections.abc import Callable, Iterator

import pytest

from penstock.core.producers import ProducerState
from penstock.errors import InvalidSetting
from penstock.hub.admin import sweeping
from penstock.hub.admin.sweeping import Sweeper
from penstock.hub.producers.producers import DAY_SECONDS, TTL_SECONDS_MIN, Expiry
from penstock.storage import Store
from penstock.storage.batches import BatchKey
from penstock.storage.producers import Producer
from penstock.testing.clock import START_AT, VirtualClock
from tests.store_contract import database_at
from tests.unit.hub.feeds import NAME, create_feed
from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.numbering import a_batch, change, expire, find_producer, settle

TTL_SECONDS, FLOOR_SECONDS = 100, 1000


@pytest.mark.parametrize("ttl_seconds", [TTL_SECONDS_MIN, TTL_SECONDS_MIN + 0.5, 7 * DAY_SECONDS], ids=str)
def test_producer_ttl_may_be_longer_than_its_last_batch_is_sent(ttl_seconds: float) -> None:
    expiry = Expiry(ttl_seconds=ttl_seconds)

    assert expiry.check() is expiry


@pytest.mark.parametrize("ttl_seconds", [TTL_SECONDS_MIN - 0.5, 0, -1], ids=str)
def test_shorter_producer_ttl_is_refused(ttl_seconds: float) -> None:
    with pytest.raises(InvalidSetting) as refused:
        Expiry(ttl_seconds=ttl_seconds).check()

    reason = f"is {ttl_seconds:g} s; it has to be 240 or more, twice what a client may send a batch for"
    assert refused.value.fields == {"field": "producer_ttl", "reason": reason}


def test_producer_expires_after_a_week_and_its_epoch_after_a_month_by_default() -> None:
    assert Expiry() == Expiry(ttl_seconds=604_800, floor_seconds=2_592_000)


def test_producer_expires_so_long_after_it_was_last_heard_of() -> None:
    producer = Producer(1, 100, "g", ProducerState(3, 0, 7), None, False, START_AT)
    expires_at = Expiry(ttl_seconds=500.5).expires_at

    assert expires_at(producer) == START_AT + 500_500_000
    assert expires_at(producer._replace(updated_at=START_AT + 7)) == START_AT + 500_500_007
    assert expires_at(producer._replace(is_pinned=True)) is None
    assert expires_at(producer._replace(state=ProducerState(3, 0, 0, is_expired=True))) is None


@pytest.fixture
def sweeper(forwarding: ForwardingStore, clock: VirtualClock) -> Iterator[Sweeper]:
    sweeper = Sweeper(forwarding, clock, Expiry(TTL_SECONDS, FLOOR_SECONDS))
    yield sweeper
    sweeper.stop()


def sweep(sweeper: Sweeper, forwarding: ForwardingStore, at_write: Callable[[], None] = lambda: None) -> None:
    """Sweep everything that there is; the test may interfere before each write."""
    last = create_feed(forwarding, "last").partition_ids[0]
    with forwarding.write() as tx:
        tx.registry.delete("last")
    expired, rests = threading.Event(), threading.Event()
    expire_some, remove_some = sweeper._expire_some, sweeper._remove_some

    def expire_next() -> bool:
        more = expire_some()
        if not more:
            expired.set()
        return more

    def remove() -> bool:
        began_later = expired.is_set()  # Else the pass may have begun before the test moved its clock.
        more = remove_some()
        if began_later and not more and count_rows(forwarding, f"partition WHERE id = {last}") == [0]:
            rests.set()
        return more

    forwarding.at_write = lambda _number: at_write()
    sweeper._expire_some = expire_next  # type: ignore[method-assign]
    sweeper._remove_some = remove  # type: ignore[method-assign]
    sweeper.start()
    sweeper.sweep()
    assert rests.wait(300), "the sweeper does not come to an end"
    sweeper._expire_some = expire_some  # type: ignore[method-assign]
    sweeper._remove_some = remove_some  # type: ignore[method-assign]


def count_rows(store: Store, *tables: str) -> list[int]:
    return [database_at(store.url).run(f"SELECT count(*) FROM penstock_{table}")[0][0] for table in tables]


def count_batches(store: Store, producer: Producer) -> int:
    return count_rows(store, f"produced WHERE producer_id = {producer.id}")[0]


def test_idle_producer_expires_and_is_forgotten_after_a_longer_time(
    sweeper: Sweeper, forwarding: ForwardingStore, store: Store, clock: VirtualClock
) -> None:
    feed = create_feed(store)
    for group in ("old", "pinned"):
        settle(store, a_batch(feed, 7, 0, "a", group=group), at=START_AT - 1)
    settle(store, a_batch(feed, 7, 0, "a"))
    change(store, feed, "pinned", is_pinned=True)
    before = [find_producer(store, feed, group) for group in ("g", "pinned")]

    clock.advance(seconds=TTL_SECONDS)
    sweep(sweeper, forwarding)

    old = find_producer(store, feed, "old")
    assert old is not None
    assert (old.state.epoch, old.state.is_expired, old.state.last_offset) == (7, True, None)
    assert (old.updated_at, count_batches(store, old)) == (START_AT + TTL_SECONDS * 1_000_000, 0)
    assert [find_producer(store, feed, group) for group in ("g", "pinned")] == before

    clock.advance(seconds=FLOOR_SECONDS)
    sweep(sweeper, forwarding)
    new = find_producer(store, feed)
    assert new is not None
    assert new.state.is_expired
    assert find_producer(store, feed, "old") == old

    clock.advance(microseconds=1)
    sweep(sweeper, forwarding)
    assert [find_producer(store, feed, group) for group in ("old", "g", "pinned")] == [None, new, before[1]]


def test_published_batches_of_a_group_are_forgotten_when_an_idle_producer_is(
    sweeper: Sweeper, forwarding: ForwardingStore, store: Store, clock: VirtualClock
) -> None:
    feed = create_feed(store)
    with store.write() as tx:
        tx.batches.begin(BatchKey(feed.id, "g", 0, "q"), clock(), upload_ids=[], chunks=0)

    clock.advance(seconds=TTL_SECONDS + FLOOR_SECONDS)
    sweep(sweeper, forwarding)
    assert count_rows(store, "batch") == [1]

    clock.advance(microseconds=1)
    sweep(sweeper, forwarding)
    assert count_rows(store, "batch") == [0]


def test_producer_that_is_heard_of_during_the_sweep_stays(
    sweeper: Sweeper, forwarding: ForwardingStore, store: Store, clock: VirtualClock
) -> None:
    feed = create_feed(store)
    for group in "abcd":
        settle(store, a_batch(feed, 0, 0, "a", group=group))
    clock.advance(seconds=TTL_SECONDS, microseconds=1)
    is_first = iter([True])

    def interfere() -> None:
        if next(is_first, False):
            settle(store, a_batch(feed, 0, 1, "b", group="a"), at=clock())
            change(store, feed, "b", is_pinned=True)
            expire(store, feed, "c")

    sweep(sweeper, forwarding, interfere)

    producers = [find_producer(store, feed, each) for each in "abcd"]
    assert [each and each.state.is_expired for each in producers] == [False, False, True, True]
    assert producers[2] and producers[2].updated_at == START_AT, "that it expired is not put off"


def test_producers_expire_a_few_at_a_time_and_then_their_batches_go(
    sweeper: Sweeper, forwarding: ForwardingStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_PRODUCERS", 2)
    monkeypatch.setattr(sweeping, "SWEEP_ROWS", 2)
    feed = create_feed(forwarding)
    for group in "abcde":
        settle(forwarding, a_batch(feed, 0, 0, "a", group=group))
    clock.advance(seconds=TTL_SECONDS, microseconds=1)
    left: list[list[int]] = []

    sweep(sweeper, forwarding, lambda: left.append(count_rows(forwarding, "producer WHERE NOT is_expired", "produced")))

    assert left[:7] == [[5, 5], [3, 5], [1, 5], [0, 5], [0, 3], [0, 1], [0, 0]]


def test_batches_of_removed_events_are_removed_except_the_newest(
    sweeper: Sweeper, forwarding: ForwardingStore, store: Store
) -> None:
    feed = create_feed(store)
    for number in range(18):
        settle(store, a_batch(feed, 0, number, "a"))
    database_at(store.url).run("UPDATE penstock_partition SET floor = 18")

    sweep(sweeper, forwarding)

    producer = find_producer(store, feed)
    assert producer is not None
    assert (producer.state.next, count_batches(store, producer)) == (18, 16)


def test_producers_of_a_dropped_event_type_are_removed_with_it(
    sweeper: Sweeper, forwarding: ForwardingStore, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_ROWS", 2)
    feed = create_feed(store, partition_count=2)
    for partition in (0, 1):
        for group in "abc":
            settle(store, a_batch(feed, 0, 0, "a", group=group, partition=partition))
    change(store, feed, "b", is_pinned=True)
    with store.write() as tx:
        tx.registry.delete(NAME)

    sweep(sweeper, forwarding)

    assert count_rows(store, "produced", "producer", "event", "partition") == [0, 0, 0, 0]
