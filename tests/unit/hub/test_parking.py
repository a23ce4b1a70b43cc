import pytest

from penstock.errors import ParkedNotFound, SubscriptionNotFound
from penstock.hub.parking import Parking
from penstock.storage import Store
from penstock.storage.groups import Intervention
from penstock.testing.clock import START_AT, VirtualClock
from penstock.testing.store_contract import database_at
from tests.unit.hub.feeds import NAME
from tests.unit.hub.subscribing import P, Played, move, open_stream, read_slots, sessions_of, subscribe, subscribed


@pytest.fixture
def parking(store: Store, clock: VirtualClock) -> Parking:
    return Parking(store, clock)


@pytest.fixture
def sub(store: Store) -> str:
    """A subscription with events 0 to 3 of which key a waits at 0 and 2, b at 1, and one without a key at 3."""
    sub = subscribed(store, partitions=1)
    open_stream(sessions_of(store), sub)
    hub = Played(store)
    hub.publish(0, 1, 2, 3, keys="aba.")
    with store.write() as tx:
        for at, key in enumerate(["a", "b", "a", None]):
            tx.parked.park(sub, P, key, at, attempts=2, at=START_AT)
    move(store, sub, p0=4)
    return sub


def test_keys_are_listed_in_the_order_in_which_they_were_parked(parking: Parking, store: Store, sub: str) -> None:
    assert [(each.key, each.first, each.last, each.events) for each in parking.list(sub)] == [
        ("a", 0, 2, 2), ("b", 1, 1, 1), (None, 3, 3, 1)
    ]  # fmt: skip
    assert parking.list(subscribe(store, "other")) == []


def test_the_first_events_of_a_key_are_shown(parking: Parking, sub: str) -> None:
    a, _, keyless = parking.list(sub)

    assert parking.events(a, 9) == [(0, b'{"n":0}'), (2, b'{"n":2}')]
    assert parking.events(a, 1) == [(0, b'{"n":0}')]
    assert parking.events(keyless, 9) == [(3, b'{"n":3}')]


def test_events_that_are_gone_are_not_shown(parking: Parking, store: Store, sub: str) -> None:
    database_at(store.url).run("UPDATE penstock_partition SET floor = 1")
    database_at(store.url).run('DELETE FROM penstock_event WHERE "offset" = 0')

    assert parking.events(parking.list(sub)[0], 9) == [(2, b'{"n":2}')]


def test_one_or_all_are_sent_again_and_streams_hear_of_it(parking: Parking, store: Store, sub: str) -> None:
    sessions = sessions_of(store)
    before = sessions.look(sub).subscription.revision
    _, b, _ = parking.list(sub)

    assert parking.retry(sub, b.id) == 1
    assert [each.is_retried for each in parking.list(sub)] == [False, True, False]
    assert parking.retry(sub) == 3
    assert [each.is_retried for each in parking.list(sub)] == [True] * 3
    assert sessions.look(sub).subscription.revision == before + 2
    assert parking.retry(subscribe(store, "other")) == 0


def test_a_key_that_is_skipped_waits_no_longer_and_it_is_known_why(parking: Parking, store: Store, sub: str) -> None:
    a, _, keyless = parking.list(sub)

    parking.skip(sub, a.id, "broken by us")
    parking.skip(sub, keyless.id, "broken, too")

    assert [each.key for each in parking.list(sub)] == ["b"]
    with store.read() as tx:
        history = [each._replace(id=0) for each in tx.groups.history(sub, before=None, limit=9)]
    assert history == [
        Intervention(NAME, "", 0, "skipped", 1, 3, 4, "broken, too", START_AT),
        Intervention(NAME, "", 0, "skipped", 1, 0, 3, "broken by us (key a)", START_AT),
    ]


def test_those_ahead_of_the_position_are_not_skipped_but_sent_in_their_turn(
    parking: Parking, store: Store, sub: str
) -> None:
    a = parking.list(sub)[0]
    with store.write() as tx:
        tx.parked.add({a.id: [90, 91]})

    parking.skip(sub, a.id, "broken by us")

    left = parking.find(sub, a.id)
    assert (left.first, left.last, left.is_retried) == (90, 91, True)
    with store.read() as tx:
        [done] = tx.groups.history(sub, before=None, limit=9)
    [slot] = [each for each in read_slots(store, sub) if each.place == a.place]
    assert (done.came_from, done.went_to) == (a.first, slot.offset)


def test_what_is_not_parked_is_not_found(parking: Parking, store: Store, sub: str) -> None:
    theirs, known = subscribe(store, "other"), parking.list(sub)[0].id

    for act in (parking.find, parking.retry, lambda *which: parking.skip(*which, "why")):
        with pytest.raises(ParkedNotFound):
            act(theirs, known)
        with pytest.raises(ParkedNotFound):
            act(sub, 999)
        with pytest.raises(SubscriptionNotFound):
            act("nobody", known)
    with pytest.raises(SubscriptionNotFound):
        parking.list("nobody")
    assert parking.find(sub, known).key == "a"
    assert len(parking.list(sub)) == 3
