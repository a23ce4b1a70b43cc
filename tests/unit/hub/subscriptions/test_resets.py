"""Streams of a hub that are opened and given back, and resets of a subscription's cursors, which wait for them."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core.subscriptions.delivery import DeliveryRules
from penstock.errors import (
    HubUnavailable,
    InvalidSubscription,
    StreamNotFound,
    SubscriptionBusy,
    SubscriptionNotFound,
)
from penstock.hub.background import uptime
from penstock.hub.hub import Hub
from penstock.hub.subscriptions import lease as lease_module
from penstock.hub.subscriptions.commits import CursorCommit
from penstock.hub.subscriptions.consumer_stream import RESETTING, ConsumerStream
from penstock.hub.subscriptions.lease import RENEW_INTERVAL
from penstock.hub.subscriptions.sessions import OpenedSession
from penstock.storage import Store
from penstock.storage.groups import PositionChange
from penstock.testing.clock import START_AT, VirtualClock
from tests.failing import has_code
from tests.promises.scene import until
from tests.store_contract import database_at
from tests.unit.hub.feeds import NAME, fill_feed
from tests.unit.hub.subscribing import P, Q, deliver, read_offsets, read_owners, read_slots, subscribe

RULES = DeliveryRules(max_uncommitted=100, batch_limit=9, flush_timeout=30, commit_timeout=60, bytes_max=1 << 20)


@pytest.fixture
def hub(store: Store, clock: VirtualClock) -> Iterator[Hub]:
    """A hub that is not started, over nine events in each of two partitions."""
    fill_feed(store, partition_count=2, events=9)
    hub = Hub(store, clock=clock)
    yield hub
    hub.subscriptions.stop()


@pytest.fixture
def sub(hub: Hub) -> str:
    return subscribe(hub.store)


def begin(hub: Hub, sub: str) -> ConsumerStream:
    return hub.subscriptions.streams.open(sub, frozenset(), RULES)


# Opening


def test_opened_stream_has_a_lease_until_it_is_closed(hub: Hub, store: Store, sub: str) -> None:
    assert not hub.subscriptions.lease.is_valid

    stream = begin(hub, sub)

    assert hub.subscriptions.lease.is_valid
    assert len(hub.subscriptions.local_streams) == 1
    assert read_owners(store, sub) == [stream.session_id] * 2
    stream.close()
    assert (len(hub.subscriptions.local_streams), read_owners(store, sub)) == (0, [None, None])


def test_opening_renews_a_lease_that_is_nearly_over(hub: Hub, sub: str) -> None:
    """Nothing has renewed it while nothing was sent; the first events would be held back a moment later."""
    lease = hub.subscriptions.lease
    lease.renew()
    lease._valid_until = uptime() + RENEW_INTERVAL / 2

    stream = begin(hub, sub)

    assert lease._valid_until > uptime() + 2 * RENEW_INTERVAL
    stream.close()


def test_stream_whose_lease_lapsed_between_opening_and_beginning_looks_first(
    hub: Hub, sub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_session = hub.subscriptions.sessions.open

    def lapse(*args: Any, **options: Any) -> OpenedSession:
        opened = open_session(*args, **options)
        hub.subscriptions.lease.lapses += 1
        return opened

    monkeypatch.setattr(hub.subscriptions.sessions, "open", lapse)
    stream = begin(hub, sub)

    assert not stream.is_certain
    assert stream.find_interruption() is None
    assert stream.is_certain


def test_refused_stream_leaves_nothing_and_others_hear_of_a_new_stream_at_once(hub: Hub, sub: str) -> None:
    first = begin(hub, sub)
    deliver(first)
    assert not first.has_work
    second = begin(hub, sub)
    assert first.has_work

    with pytest.raises(SubscriptionBusy, check=has_code("no-free-slots")):
        begin(hub, sub)

    assert len(hub.subscriptions.local_streams) == 2
    assert {each.id for each in hub.subscriptions.sessions.snapshot(sub).sessions} == {
        first.session_id,
        second.session_id,
    }


def test_stream_is_extended_and_given_back_by_its_id(hub: Hub, store: Store, sub: str) -> None:
    stream = begin(hub, sub)
    deliver(stream)

    hub.subscriptions.streams.extend(sub, stream.session_id)
    assert (stream.has_work, hub.subscriptions.sessions.snapshot(sub).sessions[0].extensions) == (True, 1)
    deliver(stream)
    assert not hub.subscriptions.streams.release(sub, stream.session_id), "it has yet to end"
    deliver(stream)
    assert stream.is_over
    stream.close()
    assert hub.subscriptions.streams.release(sub, stream.session_id)
    with pytest.raises(StreamNotFound):
        hub.subscriptions.streams.extend(sub, stream.session_id)
    assert read_owners(store, sub) == [None, None]


def test_session_whose_opening_was_never_answered_is_ended(
    hub: Hub, store: Store, sub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "SWEEP_INTERVAL", 0.001)
    monkeypatch.setattr(lease_module, "ORPHAN_ROUNDS", 1)
    stream = begin(hub, sub)
    deliver(stream)
    assert not stream.has_work
    hub.subscriptions.sessions.open(sub, frozenset(), batch_limit=9, commit_ms=60_000)

    until(lambda: stream.has_work, "the stream hears of it")

    assert [each.id for each in hub.subscriptions.sessions.snapshot(sub).sessions] == [stream.session_id]
    slots = [(slot.owner, slot.successor, slot.failed) for slot in read_slots(store, sub)]
    assert slots == [(stream.session_id, None, 0)] * 2


def test_age_of_wanted_events_is_by_the_hubs_clock(hub: Hub, clock: VirtualClock) -> None:
    first, second = hub.registry.load(NAME).partition_ids
    clock.advance(seconds=7)

    assert hub.subscriptions.find_ages({first: 5, second: 8}) == {first: 2_000_000, second: 0}
    assert hub.subscriptions.find_ages({first: 9}) == {}


# Resetting


def test_reset_of_no_partition_begins_a_subscription(hub: Hub, store: Store, sub: str) -> None:
    assert hub.subscriptions.resets.begin(sub, {}) is False

    assert read_offsets(store, sub) == [0, 0]
    assert hub.subscriptions.sessions.snapshot(sub).subscription.resetting_until is None


def test_rehearsal_of_a_reset_returns_positions_and_begins_nothing(hub: Hub, store: Store, sub: str) -> None:
    assert hub.subscriptions.resets.dry_run(sub, {P: 0}) == {P: (1, 0), Q: (1, 0)}
    assert read_offsets(store, sub) == []

    hub.subscriptions.resets.begin(sub, {})
    assert hub.subscriptions.resets.dry_run(sub, {P: 0}) == {P: (1, 0), Q: (1, 0)}
    assert hub.subscriptions.sessions.snapshot(sub).subscription.resetting_until is None


def test_reset_waits_for_streams_and_moves_its_partitions_alone(hub: Hub, store: Store, sub: str) -> None:
    stream = begin(hub, sub)
    deliver(stream)
    hub.subscriptions.commits.submit(sub, stream.session_id, [CursorCommit(P, 9), CursorCommit(Q, 9)]).result(300)

    assert hub.subscriptions.resets.begin(sub, {P: 0})
    assert not hub.subscriptions.resets.finish(sub, {P: 0})
    for reset in (hub.subscriptions.resets.begin, hub.subscriptions.resets.dry_run):
        with pytest.raises(SubscriptionBusy, check=has_code("reset-under-way")):
            reset(sub, {Q: 2})
    with pytest.raises(SubscriptionBusy, check=has_code("reset-under-way")):
        begin(hub, sub)
    assert deliver(stream) == [f"0:9[] {RESETTING}"]
    stream.close()
    assert hub.subscriptions.resets.finish(sub, {P: 0}, "a bug")

    assert read_offsets(store, sub) == [0, 9]
    look = hub.subscriptions.sessions.snapshot(sub)
    assert (look.subscription.resetting_until, look.sessions) == (None, [])
    with store.read() as tx:
        history = [each._replace(id=0) for each in tx.groups.list_changes(sub, before=None, limit=9)]
    assert history == [PositionChange(NAME, "", 0, "reset", 1, 9, 0, "a bug", START_AT)]
    assert deliver(begin(hub, sub))[0].startswith("0:9[")


def test_reset_partition_loses_its_failures_and_parked_keys(hub: Hub, store: Store, sub: str) -> None:
    hub.subscriptions.resets.begin(sub, {})
    with store.write() as tx:
        tx.subscriptions.put_slots(
            sub,
            [each._replace(failed=2, single_until=9, owner="x", sent=7) for each in tx.subscriptions.list_slots(sub)],
        )
        for place, at in ((P, 3), (P, 6), (Q, 6)):
            tx.subscriptions.park(sub, place, "a", at, attempts=2, at=0)
    hub.subscriptions.resets.begin(sub, {P: 5})

    assert hub.subscriptions.resets.finish(sub, {P: 5})

    p, q = read_slots(store, sub)
    assert (p.owner, p.sent, p.failed, p.single_until) == (None, None, 0, 0)
    assert (q.owner, q.sent, q.failed, q.single_until) == (None, None, 2, 9)
    assert [(each.place, each.last) for each in hub.subscriptions.sessions.snapshot(sub).parked] == [(Q, 6)]


def test_reset_fails_if_streams_do_not_end_in_time_and_delays_no_stream_then(hub: Hub, store: Store, sub: str) -> None:
    begin(hub, sub)
    hub.subscriptions.resets.begin(sub, {P: 2})
    database_at(store.url).run("UPDATE penstock_subscription SET resetting_until = 1")

    with pytest.raises(HubUnavailable, check=has_code("streams-in-the-way")) as refused:
        hub.subscriptions.resets.finish(sub, {P: 2})

    assert refused.value.streams == 1
    assert read_offsets(store, sub) == [0, 0]
    begin(hub, sub)


def test_streams_and_resets_begin_at_once_after_an_abandoned_reset(hub: Hub, store: Store, sub: str) -> None:
    hub.subscriptions.resets.begin(sub, {P: 2})
    with pytest.raises(SubscriptionBusy, check=has_code("reset-under-way")):
        begin(hub, sub)

    hub.subscriptions.resets.cancel(sub)

    assert deliver(begin(hub, sub))[0].startswith("0:9[")
    assert read_offsets(store, sub) == [0, 0]
    assert hub.subscriptions.resets.begin(sub, {P: 2})
    hub.subscriptions.resets.cancel("nobody")


def test_reset_does_not_wait_for_ended_streams_and_they_cannot_commit_after_it(
    hub: Hub, store: Store, sub: str
) -> None:
    stream = begin(hub, sub)
    deliver(stream)
    stream.end("left")
    stream.close()
    assert hub.subscriptions.sessions.snapshot(sub).sessions[0].holds_until is not None

    hub.subscriptions.resets.begin(sub, {P: 2})
    assert hub.subscriptions.resets.finish(sub, {P: 2})

    with pytest.raises(StreamNotFound):
        hub.subscriptions.commits.submit(sub, stream.session_id, [CursorCommit(P, 9)]).result(300)
    assert read_owners(store, sub) == [None, None]


def test_reset_of_an_unknown_partition_or_subscription_is_refused(hub: Hub, sub: str) -> None:
    for reset in (hub.subscriptions.resets.begin, hub.subscriptions.resets.dry_run):
        with pytest.raises(InvalidSubscription):
            reset(sub, {(NAME, 2): 0})
    for act in (
        hub.subscriptions.resets.begin,
        hub.subscriptions.resets.finish,
        hub.subscriptions.resets.dry_run,
    ):
        with pytest.raises(SubscriptionNotFound):
            act("nobody", {P: 0})
    assert hub.subscriptions.sessions.snapshot(sub).subscription.resetting_until is None
