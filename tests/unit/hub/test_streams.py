from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core.stream_rules import Rules
from penstock.errors import (
    InvalidSubscription,
    NoFreeSlots,
    ResetUnderWay,
    StreamNotFound,
    StreamsInTheWay,
    SubscriptionNotFound,
)
from penstock.hub import live
from penstock.hub.clock import uptime
from penstock.hub.commits import Commit
from penstock.hub.hub import Hub
from penstock.hub.live import RENEW_S
from penstock.hub.sessions import Opened
from penstock.hub.stream import RESETTING, Stream
from penstock.storage import Store
from penstock.storage.groups import Intervention
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.store_contract import database_at
from tests.promises.scene import until
from tests.unit.hub.feeds import NAME, fill_feed
from tests.unit.hub.subscribing import P, Q, deliver, read_offsets, read_owners, read_slots, subscribe

RULES = Rules(max_uncommitted=100, batch_limit=9, flush_s=30, commit_s=60, bytes_max=1 << 20)


@pytest.fixture
def hub(store: Store, clock: VirtualClock) -> Iterator[Hub]:
    """A hub that is not started, over nine events in each of two partitions."""
    fill_feed(store, partition_count=2, events=9)
    hub = Hub(store, clock=clock)
    yield hub
    hub.streams.stop()


def stream(hub: Hub, sub: str, *wants: Any) -> Stream:
    return hub.streams.open(sub, frozenset(wants), RULES, hub.watch())


def test_whoever_opens_a_stream_keeps_its_lease(hub: Hub, store: Store) -> None:
    sub = subscribe(store)
    assert not hub.streams.live.holds

    opened = stream(hub, sub)

    assert hub.streams.live.holds
    assert hub.streams.live.streams == 1
    assert read_owners(store, sub) == [opened.session_id] * 2
    opened.close()
    assert (hub.streams.live.streams, read_owners(store, sub)) == (0, [None, None])


def test_who_opens_a_stream_when_the_lease_is_nearly_over_renews_it(hub: Hub, store: Store) -> None:
    """Nobody has while nothing was sent, and its first events would be held back, or cut off, a moment later."""
    lease = hub.streams.live
    lease.renew()
    lease._valid_until = uptime() + RENEW_S / 2
    assert lease.holds

    opened = stream(hub, subscribe(store))

    assert lease._valid_until > uptime() + 2 * RENEW_S
    opened.close()


def test_one_that_was_opened_before_a_lapse_of_the_lease_looks_who_has_what(
    hub: Hub, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have had its partitions between its being opened and its beginning."""
    sub = subscribe(store)
    open_session = hub.streams.sessions.open

    def lapse(*args: Any, **options: Any) -> Opened:
        found = open_session(*args, **options)
        hub.streams.live.lapses += 1
        return found

    monkeypatch.setattr(hub.streams.sessions, "open", lapse)
    found = stream(hub, sub)

    assert not found.certain
    assert found.interrupted() is None
    assert found.certain


def test_one_for_which_there_is_no_room_leaves_nothing(hub: Hub, store: Store) -> None:
    sub = subscribe(store)
    opened = [stream(hub, sub) for _ in range(2)]

    with pytest.raises(NoFreeSlots):
        stream(hub, sub)

    assert hub.streams.live.streams == 2
    assert {each.id for each in hub.streams.look(sub).sessions} == {each.session_id for each in opened}


def test_the_streams_of_a_hub_hear_of_a_newcomer_at_once(hub: Hub, store: Store) -> None:
    sub = subscribe(store)
    first = stream(hub, sub)
    deliver(first)
    assert not first.unread

    stream(hub, sub)

    assert first.unread


def test_time_is_given_and_partitions_given_back_by_the_id_of_a_stream(hub: Hub, store: Store) -> None:
    sub = subscribe(store)
    opened = stream(hub, sub)
    deliver(opened)

    hub.streams.extend(sub, opened.session_id)
    assert (opened.unread, hub.streams.look(sub).sessions[0].extensions) == (True, 1)
    deliver(opened)
    assert not hub.streams.give_back(sub, opened.session_id), "it has yet to end"
    deliver(opened)
    assert opened.over
    opened.close()
    assert hub.streams.give_back(sub, opened.session_id)
    with pytest.raises(StreamNotFound):
        hub.streams.extend(sub, opened.session_id)
    assert read_owners(store, sub) == [None, None]


def test_a_stream_whose_opening_was_never_answered_is_ended(
    hub: Hub, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit got through, and whoever asked for it was told that it may not have."""
    monkeypatch.setattr(live, "SWEEP_S", 0.001)
    monkeypatch.setattr(live, "ORPHAN_ROUNDS", 1)
    sub = subscribe(store)
    sent = stream(hub, sub)
    deliver(sent)
    assert not sent.unread
    hub.streams.sessions.open(sub, frozenset(), batch_limit=9, commit_ms=60_000)

    until(lambda: sent.unread, "the stream that is sent hears of it")

    assert [each.id for each in hub.streams.look(sub).sessions] == [sent.session_id]
    assert [(slot.owner, slot.heir, slot.failed) for slot in read_slots(store, sub)] == [(sent.session_id, None, 0)] * 2


def test_the_age_of_what_is_wanted_is_by_the_hubs_clock(hub: Hub, clock: VirtualClock) -> None:
    first, second = hub.event_type(NAME).partition_ids
    clock.advance(seconds=7)

    assert hub.streams.ages({first: 5, second: 8}) == {first: 2_000_000, second: 0}
    assert hub.streams.ages({first: 9}) == {}


# Resets


def test_a_reset_of_nothing_begins_a_subscription(hub: Hub, store: Store) -> None:
    sub = subscribe(store)

    assert hub.streams.begin_reset(sub, {}) is False

    assert read_offsets(store, sub) == [0, 0]
    assert hub.streams.look(sub).subscription.resetting_until is None


def test_a_rehearsal_tells_of_which_epoch_its_partitions_are_and_begins_nothing(hub: Hub, store: Store) -> None:
    sub = subscribe(store)

    assert hub.streams.rehearse_reset(sub, {P: 0}) == {P: 1, Q: 1}
    assert read_offsets(store, sub) == []

    hub.streams.begin_reset(sub, {})
    assert hub.streams.rehearse_reset(sub, {P: 0}) == {P: 1, Q: 1}
    assert hub.streams.look(sub).subscription.resetting_until is None


def test_a_reset_waits_for_streams_and_moves_its_partitions_alone(hub: Hub, store: Store) -> None:
    sub = subscribe(store)
    opened = stream(hub, sub)
    deliver(opened)
    hub.streams.commit(sub, opened.session_id, [Commit(P, 9), Commit(Q, 9)]).result(300)

    assert hub.streams.begin_reset(sub, {P: 0})
    assert not hub.streams.end_reset(sub, {P: 0})
    for reset in (hub.streams.begin_reset, hub.streams.rehearse_reset):
        with pytest.raises(ResetUnderWay):
            reset(sub, {Q: 2})
    with pytest.raises(ResetUnderWay):
        stream(hub, sub)
    assert deliver(opened) == [f"0:9[] {RESETTING}"]
    opened.close()
    assert hub.streams.end_reset(sub, {P: 0}, "a bug")

    assert read_offsets(store, sub) == [0, 9]
    look = hub.streams.look(sub)
    assert (look.subscription.resetting_until, look.sessions) == (None, [])
    with store.read() as tx:
        history = [each._replace(id=0) for each in tx.groups.history(sub, before=None, limit=9)]
    assert history == [Intervention(NAME, "", 0, "reset", 1, 9, 0, "a bug", START_AT)]
    assert deliver(stream(hub, sub))[0].startswith("0:9[")


def test_of_what_is_reset_nothing_has_failed_or_waits(hub: Hub, store: Store) -> None:
    sub = subscribe(store)
    hub.streams.begin_reset(sub, {})
    with store.write() as tx:
        tx.subscriptions.put(
            sub, [each._replace(failed=2, single_until=9, owner="x", sent=7) for each in tx.subscriptions.slots(sub)]
        )
        for place, at in ((P, 3), (P, 6), (Q, 6)):
            tx.parked.park(sub, place, "a", at, attempts=2, at=0)
    hub.streams.begin_reset(sub, {P: 5})

    assert hub.streams.end_reset(sub, {P: 5})

    p, q = read_slots(store, sub)
    assert (p.owner, p.sent, p.failed, p.single_until) == (None, None, 0, 0)
    assert (q.owner, q.sent, q.failed, q.single_until) == (None, None, 2, 9)
    assert [(each.place, each.last) for each in hub.streams.look(sub).parked] == [(Q, 6)]


def test_streams_that_do_not_end_are_in_the_way_and_nothing_is_set(hub: Hub, store: Store) -> None:
    sub = subscribe(store)
    stream(hub, sub)
    hub.streams.begin_reset(sub, {P: 2})
    database_at(store.url).run("UPDATE penstock_subscription SET resetting_until = 1")

    with pytest.raises(StreamsInTheWay) as told_:
        hub.streams.end_reset(sub, {P: 2})

    assert told_.value.fields["streams"] == 1
    assert read_offsets(store, sub) == [0, 0]


def test_streams_begin_again_at_once_after_a_reset_that_has_failed(hub: Hub, store: Store) -> None:
    sub = subscribe(store)
    hub.streams.begin_reset(sub, {P: 2})
    with pytest.raises(ResetUnderWay):
        stream(hub, sub)

    hub.streams.abandon_reset(sub)

    assert deliver(stream(hub, sub))[0].startswith("0:9[")
    assert read_offsets(store, sub) == [0, 0]
    assert hub.streams.begin_reset(sub, {P: 2}), "another reset may begin at once, too"
    hub.streams.abandon_reset("nobody")


def test_those_that_may_still_commit_are_not_waited_for_and_cannot_afterwards(hub: Hub, store: Store) -> None:
    sub = subscribe(store)
    opened = stream(hub, sub)
    deliver(opened)
    opened.end("left")
    opened.close()
    assert hub.streams.look(sub).sessions[0].holds_until is not None

    hub.streams.begin_reset(sub, {P: 2})
    assert hub.streams.end_reset(sub, {P: 2})

    with pytest.raises(StreamNotFound):
        hub.streams.commit(sub, opened.session_id, [Commit(P, 9)]).result(300)
    assert read_owners(store, sub) == [None, None]


def test_only_what_it_has_can_be_reset(hub: Hub, store: Store) -> None:
    sub = subscribe(store)

    for reset in (hub.streams.begin_reset, hub.streams.rehearse_reset):
        with pytest.raises(InvalidSubscription):
            reset(sub, {(NAME, 2): 0})
    for act in (hub.streams.begin_reset, hub.streams.end_reset, hub.streams.rehearse_reset):
        with pytest.raises(SubscriptionNotFound):
            act("nobody", {P: 0})
    assert hub.streams.look(sub).subscription.resetting_until is None
