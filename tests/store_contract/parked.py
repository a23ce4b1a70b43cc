"""The contract of events that were set aside: `penstock.storage.subscriptions.SubscriptionRepository`."""

import pytest

from penstock.core.subscriptions.assignment import FeedPartition
from penstock.storage import Store
from penstock.storage.subscriptions import StoredParkedKey
from tests.store_contract.database import FIRST_AT, Contract, Database
from tests.store_contract.subscriptions import AWKWARD, SOURCE, begun

OTHER: FeedPartition = ("order.placed", 1)
KEYS = (
    "", " ", "a", "A", "a ", "é", "e\u0301", "\uffee", "\U0001f6b0", "\u202eabc", "null", AWKWARD,
    "x" * 10_240, "x" * 10_239 + "y", "🚰" * 2_560,
)  # fmt: skip
"""Each is another one: no language's order, no form of letters, and no beginning makes two of them the same."""


class ParkedContract(Contract):
    """What waits is known by subscription, partition and key, in the order in which it was parked."""

    def test_nothing_waits_before_it_is_parked(self, store: Store) -> None:
        begun(store, "s", SOURCE)

        with store.write() as tx:
            tx.subscriptions.acknowledge_parked({})
            tx.subscriptions.acknowledge_parked({1: 99})
            for retried in (True, False):
                tx.subscriptions.mark_parked([], retried=retried)
                tx.subscriptions.mark_parked([1, 2], retried=retried)
            tx.subscriptions.add_parked({})
            assert tx.subscriptions.list_parked_offsets(1, after=-1, limit=9) == []
        assert listed(store) == listed(store, "nobody") == []

    def test_a_key_waits_from_its_event_on(self, store: Store) -> None:
        begun(store, "s", SOURCE)

        parked_id = park(store, "key", 1 << 60)

        [found] = listed(store)
        assert found == StoredParkedKey(parked_id, SOURCE, "key", 2, FIRST_AT, False, 1, 1 << 60, 1 << 60)
        assert type(found.is_retried) is bool
        assert offsets(store, parked_id) == [1 << 60]

    def test_a_key_that_waits_is_parked_once(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        first = park(store, "key", 3)

        assert [park(store, "key", each) for each in (5, 4, 3)] == [first] * 3

        [found] = listed(store)
        assert (found.attempts, found.events, found.first, found.last) == (2, 3, 3, 5)
        assert offsets(store, first) == [3, 4, 5]

    def test_whatever_a_key_is_it_is_told_from_others(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        ids = [park(store, key, offset) for offset, key in enumerate(KEYS)]

        again = [park(store, key, 50) for key in KEYS]

        assert again == ids
        assert len(set(ids)) == len(KEYS)
        found = [(each.key, each.events, each.first) for each in listed(store)]
        assert found == [(key, 2, offset) for offset, key in enumerate(KEYS)]

    def test_measured_subscriptions_have_their_number_of_parked_keys(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        begun(store, "other", SOURCE)
        begun(store, "without", SOURCE)
        for key in ("a", "b"):
            park(store, key, 3)
            park(store, key, 4)
        park(store, "a", 3, "other")

        with store.read() as tx:
            measured, total = tx.subscriptions.measure_parked(9)
            assert [(each.subscription, each.keys, each.parked_at) for each in measured] == [
                ("s", 2, FIRST_AT),
                ("other", 1, FIRST_AT),
            ]
            assert all(each.application for each in measured)
            assert total == 2
            assert tx.subscriptions.measure_parked(1) == (measured[:1], 2)

    def test_those_without_a_key_wait_each_by_itself(self, store: Store) -> None:
        begun(store, "s", SOURCE)

        ids = [park(store, None, offset) for offset in (3, 4, 4)]

        assert len(set(ids)) == 3
        assert [(each.id, each.key, each.first, each.events) for each in listed(store)] == [
            (ids[0], None, 3, 1), (ids[1], None, 4, 1), (ids[2], None, 4, 1)
        ]  # fmt: skip

    def test_a_key_is_another_one_in_another_place(self, store: Store) -> None:
        for name in ("s", "other"):
            begun(store, name, SOURCE)
        places = [("s", SOURCE), ("s", OTHER), ("s", ("invoice", 0)), ("other", SOURCE)]

        ids = [park(store, "key", 3, name, place) for name, place in places]

        assert len(set(ids)) == 4
        assert [each.place for each in listed(store)] == [SOURCE, OTHER, ("invoice", 0)]
        assert [each.id for each in listed(store, "other")] == ids[3:]

    def test_more_events_wait_and_those_that_do_already_are_passed_over(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        first, second = park(store, "a", 3), park(store, "b", 4)

        with store.write() as tx:
            tx.subscriptions.add_parked({first: [9, 3, 5, 9], second: []})

        assert [(each.events, each.first, each.last) for each in listed(store)] == [(3, 3, 9), (1, 4, 4)]
        assert offsets(store, first) == [3, 5, 9]

    def test_events_are_told_page_by_page(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        parked_id, other = park(store, "a", 0), park(store, "b", 1)
        with store.write() as tx:
            tx.subscriptions.add_parked({parked_id: range(2, 2_500, 2), other: range(1, 2_500, 2)})

        assert offsets(store, parked_id, limit=3) == [0, 2, 4]
        assert offsets(store, parked_id, after=4, limit=3) == [6, 8, 10]
        assert offsets(store, parked_id, after=5, limit=2) == [6, 8]
        assert offsets(store, parked_id, after=2_494) == [2_496, 2_498]
        assert offsets(store, parked_id, after=2_498) == []

    def test_what_is_acknowledged_waits_no_longer(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        first, second = park(store, "a", 3), park(store, "b", 4)
        with store.write() as tx:
            tx.subscriptions.add_parked({first: [5, 7]})

        for last, left in ((2, [3, 5, 7]), (5, [7]), (6, [7])):
            with store.write() as tx:
                tx.subscriptions.acknowledge_parked({first: last})
            assert offsets(store, first) == left
        with store.write() as tx:
            tx.subscriptions.acknowledge_parked({first: 7})
            tx.subscriptions.acknowledge_parked({first: 7})

        assert [each.id for each in listed(store)] == [second]
        assert park(store, "a", 9) > second, "an id is given once"

    def test_keys_are_sent_again_and_parked_again(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        first, second, third = (park(store, each, 3) for each in "abc")

        with store.write() as tx:
            tx.subscriptions.mark_parked([first, third, 999], retried=True)
            tx.subscriptions.mark_parked([third], retried=True)
        assert [each.is_retried for each in listed(store)] == [True, False, True]
        with store.write() as tx:
            tx.subscriptions.mark_parked([first, 999], retried=False)

        assert [(each.id, each.attempts, each.is_retried) for each in listed(store)] == [
            (first, 3, False), (second, 2, False), (third, 2, True)
        ]  # fmt: skip
        assert park(store, "c", 4) == third, "one that is sent again waits still"
        assert listed(store)[2].is_retried

    def test_what_waits_in_a_partition_is_forgotten(self, store: Store, database: Database) -> None:
        for name in ("s", "other"):
            begun(store, name, SOURCE)
        for key, offset in (("a", 3), ("a", 7), ("b", 7), (None, 6), (None, 8)):
            park(store, key, offset)
        for name, place in (("s", OTHER), ("s", ("invoice", 0)), ("other", SOURCE)):
            park(store, "a", 9, name, place)

        with store.write() as tx:
            parked = tx.subscriptions.list_parked("s")
            tx.subscriptions.acknowledge_parked({each.id: each.last for each in parked if each.place == SOURCE})

        assert [(each.place, each.key, each.first, each.last) for each in listed(store)] == [
            (OTHER, "a", 9, 9), (("invoice", 0), "a", 9, 9)
        ]  # fmt: skip
        assert len(listed(store, "other")) == 1
        assert database.run("SELECT count(*) FROM penstock_parked_event") == [(3,)], "their events are forgotten, too"

    def test_what_is_undone_was_never_parked(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        kept = park(store, "a", 3)

        with pytest.raises(ZeroDivisionError), store.write() as tx:
            tx.subscriptions.park("s", SOURCE, "b", 4, attempts=2, at=FIRST_AT)
            tx.subscriptions.mark_parked([kept], retried=True)
            tx.subscriptions.acknowledge_parked({kept: 3})
            raise ZeroDivisionError

        assert listed(store) == [StoredParkedKey(kept, SOURCE, "a", 2, FIRST_AT, False, 1, 3, 3)]


def park(store: Store, key: str | None, offset: int, name: str = "s", place: FeedPartition = SOURCE) -> int:
    """Let a key wait, in a transaction of its own; return the id under which it is found then."""
    with store.write() as tx:
        tx.subscriptions.park(name, place, key, offset, attempts=2, at=FIRST_AT)
        found = [each.id for each in tx.subscriptions.list_parked(name) if (each.place, each.key) == (place, key)]
    return found[-1]


def listed(store: Store, name: str = "s") -> list[StoredParkedKey]:
    """Return the keys that wait."""
    with store.read() as tx:
        return list(tx.subscriptions.list_parked(name))


def offsets(store: Store, parked_id: int, *, after: int = -1, limit: int = 9_999) -> list[int]:
    """Return which events of a key wait."""
    with store.read() as tx:
        return list(tx.subscriptions.list_parked_offsets(parked_id, after=after, limit=limit))
