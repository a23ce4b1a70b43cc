"""The contract of parked keys: `penstock.storage.subscriptions.SubscriptionRepository`."""

from penstock.core.groups.parking import ParkedStream
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.storage import Store
from penstock.storage.groups import Position
from penstock.storage.subscriptions import StoredParkedKey
from tests.store_contract.database import FIRST_AT, Contract, Database
from tests.store_contract.groups import stored
from tests.store_contract.subscriptions import AWKWARD, SOURCE, begun

OTHER: FeedPartition = ("order.placed", 1)
KEYS = (
    "", " ", "a", "A", "a ", "é", "e\u0301", "\uffee", "\U0001f6b0", "\u202eabc", "null", AWKWARD,
    "x" * 10_240, "x" * 10_239 + "y", "🚰" * 2_560,
)  # fmt: skip
"""Each is another one: no language's order, no form of letters, and no beginning makes two of them the same."""


class ParkedContract(Contract):
    """Parked events are kept by subscription, partition and key, in the order of parking."""

    def test_unknown_parked_keys_are_ignored(self, store: Store) -> None:
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

    def test_key_is_parked_once_and_waits_with_its_first_event_and_later_ones(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        parked_id = park(store, "key", 1 << 60)
        [found] = listed(store)
        assert found == StoredParkedKey(parked_id, SOURCE, "key", 2, FIRST_AT, False, 1, 1 << 60, 1 << 60)
        assert type(found.is_retried) is bool

        assert [park(store, "key", each) for each in (5, 4, 5)] == [parked_id] * 3

        assert listed(store) == [found._replace(events=3, first=4)]
        assert offsets(store, parked_id) == [4, 5, 1 << 60]

    def test_keys_of_any_text_are_distinct(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        ids = [park(store, key, offset) for offset, key in enumerate(KEYS)]

        again = [park(store, key, 50) for key in KEYS]

        assert again == ids
        assert len(set(ids)) == len(KEYS)
        found = [(each.key, each.events, each.first) for each in listed(store)]
        assert found == [(key, 2, offset) for offset, key in enumerate(KEYS)]

    def test_measured_groups_have_their_number_of_parked_keys_and_streams(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        begun(store, "other", SOURCE)
        begun(store, "without", SOURCE)
        for key in ("a", "b"):
            park(store, key, 3)
            park(store, key, 4)
        park(store, "a", 3, "other")
        stored(store, "processor", Position("order.placed", "", 0, 1, 7))
        streams = [
            ParkedStream("order.placed", 0, each, 7, 9, 2, 1, "failing", "boom", "7") for each in ("x", "y", "z")
        ]
        with store.write() as tx:
            tx.groups.lock("processor", kind="processor", at=FIRST_AT)
            tx.groups.park("processor", streams, FIRST_AT)

        with store.read() as tx:
            measured, total = tx.groups.measure_parked(9)
            assert [(each.group, each.kind, each.keys) for each in measured] == [
                ("processor", "processor", 3),
                ("s", "subscription", 2),
                ("other", "subscription", 1),
            ]
            assert [bool(each.application) for each in measured] == [False, True, True]
            assert total == 3
            assert tx.groups.measure_parked(1) == (measured[:1], 3)

    def test_events_without_a_key_and_keys_of_other_partitions_are_parked_apart(self, store: Store) -> None:
        for name in ("s", "other"):
            begun(store, name, SOURCE)
        places = [("s", SOURCE), ("s", OTHER), ("s", ("invoice", 0)), ("other", SOURCE)]

        ids = [park(store, None, offset) for offset in (3, 4, 4)]
        ids += [park(store, "key", 3, name, place) for name, place in places]

        assert len(set(ids)) == 7
        assert [(each.id, each.place, each.key, each.first, each.events) for each in listed(store)] == [
            *((ids[at], SOURCE, None, first, 1) for at, first in enumerate((3, 4, 4))),
            *((ids[3 + at], place, "key", 3, 1) for at, (_, place) in enumerate(places[:3])),
        ]
        assert [each.id for each in listed(store, "other")] == ids[6:]

    def test_added_events_wait_once_and_are_listed_page_by_page(self, store: Store) -> None:
        begun(store, "s", SOURCE)
        parked_id, other = park(store, "a", 0), park(store, "b", 1)
        with store.write() as tx:
            tx.subscriptions.add_parked({parked_id: [*range(2, 2_500, 2), 4, 0], other: []})
            tx.subscriptions.add_parked({other: range(1, 2_500, 2)})

        assert [(each.events, each.first, each.last) for each in listed(store)] == [
            (1_250, 0, 2_498),
            (1_250, 1, 2_499),
        ]
        assert offsets(store, parked_id, limit=3) == [0, 2, 4]
        assert offsets(store, parked_id, after=4, limit=3) == [6, 8, 10]
        assert offsets(store, parked_id, after=5, limit=2) == [6, 8]
        assert offsets(store, parked_id, after=2_494) == [2_496, 2_498]
        assert offsets(store, parked_id, after=2_498) == []

    def test_keys_parked_before_a_time_are_listed_oldest_first(self, store: Store) -> None:
        for subscription, key, at in (("s", "a", 7), ("t", "b", 3), ("s", "c", 9)):
            if key != "c":
                begun(store, subscription, SOURCE)
            with store.write() as tx:
                tx.subscriptions.park(subscription, SOURCE, key, 0, attempts=1, at=FIRST_AT + at)

        with store.read() as tx:
            [a, c], [b] = ([each.id for each in tx.subscriptions.list_parked(name)] for name in ("s", "t"))
            assert tx.subscriptions.list_old_parked(FIRST_AT + 9, 9) == [("t", b), ("s", a)]
            assert tx.subscriptions.list_old_parked(FIRST_AT + 99, 2) == [("t", b), ("s", a)]
            assert tx.subscriptions.list_old_parked(FIRST_AT + 3, 9) == []
        assert c

    def test_acknowledged_events_wait_no_longer(self, store: Store) -> None:
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

    def test_key_is_retried_and_parked_again_with_one_more_attempt(self, store: Store) -> None:
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

    def test_acknowledged_keys_of_a_partition_leave_no_rows(self, store: Store, database: Database) -> None:
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


def park(store: Store, key: str | None, offset: int, name: str = "s", place: FeedPartition = SOURCE) -> int:
    """Park an event of a key in a transaction of its own, and return the id of the key."""
    with store.write() as tx:
        tx.subscriptions.park(name, place, key, offset, attempts=2, at=FIRST_AT)
        found = [each.id for each in tx.subscriptions.list_parked(name) if (each.place, each.key) == (place, key)]
    return found[-1]


def listed(store: Store, name: str = "s") -> list[StoredParkedKey]:
    with store.read() as tx:
        return list(tx.subscriptions.list_parked(name))


def offsets(store: Store, parked_id: int, *, after: int = -1, limit: int = 9_999) -> list[int]:
    with store.read() as tx:
        return list(tx.subscriptions.list_parked_offsets(parked_id, after=after, limit=limit))
