"""The contract of the batches of idempotent producers: `penstock.storage.producers.ProducerRepository`."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.core.producers import DIGEST_BYTES, EpochEnd, ProducerState, StoredBatch
from penstock.storage import Store
from penstock.storage.producers import AppendedBatch, BatchRef, BatchWindow
from tests.store_contract.database import FIRST_AT, Contract, Database, append, created, purge, row
from tests.store_contract.producers import a_batch, forgotten, inserted, listed, only, produced

LOG = [a_batch(4, 100, 3), a_batch(7, 103, 1), a_batch(8, 200, 10), a_batch(18, 300, 2), a_batch(30, 600, 5)]
FOUND = {
    "a whole one": (8, 18, LOG[2:3]),
    "the middle of one": (10, 12, LOG[2:3]),
    "the first event of one": (4, 5, LOG[:1]),
    "the last event of one": (6, 7, LOG[:1]),
    "two that follow each other": (7, 18, LOG[1:3]),
    "the end of one and the beginning of the next": (17, 19, LOG[2:4]),
    "parts of several": (5, 19, LOG[:4]),
    "all before a hole": (4, 20, LOG[:4]),
    "a hole": (20, 30, []),
    "the end of a hole and the beginning of one": (25, 31, LOG[4:]),
    "more than there are": (0, 1 << 60, LOG),
    "up to the first": (0, 5, LOG[:1]),
    "before the first": (0, 4, []),
    "after the last": (35, 99, []),
}
CHANGES = (
    "UPDATE penstock_produced SET digests = digests",
    'UPDATE penstock_produced SET "offset" = "offset" + 1',
    "UPDATE penstock_produced SET number = number + 100",
    "UPDATE penstock_produced SET appended_at = 0 WHERE number = 7",
)
ADD = """INSERT INTO penstock_produced (producer_id, epoch, number, events, "offset", appended_at, digests)
         VALUES (?, ?, ?, ?, ?, ?, ?)"""


class ProducedContract(Contract):
    """Batches are kept by producer, epoch and number; none is changed, and no number is given twice."""

    @pytest.fixture
    def producer_id(self, store: Store) -> int:
        """Return a producer with the batches of `LOG` in epoch 3, and others around it."""
        partition_id = created(store).partition_ids[0]
        found, other = (inserted(store, (partition_id, name), ProducerState(3, 0, 0)) for name in ("g", "h"))
        produced(store, *(AppendedBatch(found, 3, each) for each in LOG))
        produced(store, AppendedBatch(found, 2, a_batch(0, 0, 50)), AppendedBatch(found, 4, a_batch(0, 400, 50)))
        produced(store, AppendedBatch(other, 3, a_batch(0, 500, 50)))
        return found

    @pytest.mark.parametrize(("first", "stop", "wanted"), FOUND.values(), ids=FOUND)
    def test_batches_are_found_by_any_of_their_numbers(
        self, store: Store, producer_id: int, first: int, stop: int, wanted: list[StoredBatch]
    ) -> None:
        assert found(store, producer_id, 3, first, stop) == wanted
        assert found(store, producer_id, 9, first, stop) == found(store, 999_999, 3, first, stop) == []

    def test_window_and_ending_of_an_epoch_are_those_of_its_batches(self, store: Store, producer_id: int) -> None:
        with store.read() as tx:
            windows = [tx.producers.find_window(producer_id, epoch) for epoch in (2, 3, 4, 5)]

        assert windows == [
            BatchWindow(1, 0, EpochEnd(2, 50, 49)),
            BatchWindow(5, 4, EpochEnd(3, 35, 604)),
            BatchWindow(1, 0, EpochEnd(4, 50, 449)),
            BatchWindow(0, None, None),
        ]

    def test_large_batch_comes_back_whole(self, store: Store) -> None:
        producer_id = inserted(store, (created(store).partition_ids[0], "g"))
        large = a_batch(0, 1 << 39, 20_000)
        assert len(large.digests) == 20_000 * DIGEST_BYTES

        produced(store, AppendedBatch(producer_id, 0, large))

        assert found(store, producer_id, 0, 19_999, 20_000) == [large]

    def test_batch_of_an_unknown_producer_is_refused(self, store: Store) -> None:
        with pytest.raises(Exception, match=r"(?i)foreign key"):
            produced(store, AppendedBatch(999_999, 0, a_batch(0, 0, 1)))

    @pytest.mark.usefixtures("producer_id")
    def test_sweep_keeps_producers_with_batches_and_partitions_with_producers(
        self, store: Store, database: Database
    ) -> None:
        with store.write() as tx:
            tx.registry.delete("order.placed")

        assert forgotten(store, FIRST_AT) == 0
        assert purge(store) == 0
        assert rows(database) == (1, 2, 8)


class GoneContract(Contract):
    """Batches of removed events are swept, except those that producers still need."""

    def test_no_batch_is_unneeded_while_its_events_are_there(self, store: Store) -> None:
        producer_id = inserted(store, (created(store).partition_ids[0], "g"), ProducerState(3, 0, 0))
        produced(store, *(AppendedBatch(producer_id, 3, a_batch(n, n, 1)) for n in range(9)))

        assert gone(store, kept=1) == []

    def test_old_batches_are_unneeded_except_the_newest_of_each_producer(self, store: Store) -> None:
        feed = created(store, partitions=2)
        one, other = (inserted(store, (each, "g"), ProducerState(3, 0, 0)) for each in feed.partition_ids)
        with store.write() as tx:
            tx.producers.append_batches([AppendedBatch(one, 2, a_batch(7, 7, 1))], FIRST_AT - 1)
            for n in range(5):
                tx.producers.append_batches([AppendedBatch(one, 3, a_batch(n, n, 1))], FIRST_AT + n)
            tx.producers.append_batches([AppendedBatch(other, 3, a_batch(n, n, 1)) for n in range(3)], FIRST_AT + 9)

        def old(before: int, kept: int) -> list[BatchRef]:
            with store.read() as tx:
                return sorted(tx.producers.list_unneeded_batches(99, kept, before))

        assert old(FIRST_AT - 1, 1) == old(0, 1) == []
        assert old(FIRST_AT + 2, 1) == [BatchRef(one, 2, 7), BatchRef(one, 3, 0), BatchRef(one, 3, 1)]
        assert old(FIRST_AT + 9, 2) == [BatchRef(one, 2, 7), *(BatchRef(one, 3, n) for n in range(3))]

    def test_old_batches_of_a_pinned_producer_are_needed(self, store: Store, database: Database) -> None:
        producer_id = inserted(store, (created(store).partition_ids[0], "g"), ProducerState(3, 0, 0))
        produced(store, *(AppendedBatch(producer_id, 3, a_batch(n, n, 1)) for n in range(5)))
        database.run(f"UPDATE penstock_producer SET is_pinned = {'true' if database.mark == '%s' else '1'}")

        with store.read() as tx:
            assert tx.producers.list_unneeded_batches(99, 1, FIRST_AT + 99) == []

    def test_batches_of_removed_events_are_unneeded_except_the_newest_of_each_producer(
        self, store: Store, database: Database
    ) -> None:
        feed = created(store, partitions=2)
        one, other = (inserted(store, (each, "g"), ProducerState(3, 0, 0)) for each in feed.partition_ids)
        for producer_id in (one, other):
            for epoch, first_offset in ((2, 0), (3, 8)):
                batches = (a_batch(2 * n, first_offset + 2 * n, 2) for n in range(4))
                produced(store, *(AppendedBatch(producer_id, epoch, batch) for batch in batches))

        sift(database, feed.partition_ids[0], 5)
        assert gone(store, kept=6) == [BatchRef(one, 2, 0), BatchRef(one, 2, 2)]
        assert gone(store, kept=7) == [BatchRef(one, 2, 0)]
        assert gone(store, kept=8) == gone(store, kept=99) == []

        sift(database, feed.partition_ids[0], 99)
        assert gone(store, kept=1) == [
            *(BatchRef(one, 2, n) for n in (0, 2, 4, 6)),
            *(BatchRef(one, 3, n) for n in (0, 2, 4)),
        ]
        assert gone(store, kept=5) == [BatchRef(one, 2, 0), BatchRef(one, 2, 2), BatchRef(one, 2, 4)]

    def test_batch_is_needed_as_long_as_one_of_its_events_is_there(self, store: Store, database: Database) -> None:
        partition_id = created(store).partition_ids[0]
        producer_id = inserted(store, (partition_id, "g"))
        produced(store, *(AppendedBatch(producer_id, 0, a_batch(10 * n, 10 * n, 10)) for n in range(3)))

        told = []
        for floor in (1, 9, 10, 11, 19, 20):
            sift(database, partition_id, floor)
            told.append([each.first for each in gone(store, kept=1)])

        assert told == [[], [], [0], [0], [0], [0, 10]]

    def test_all_batches_of_expired_producers_and_dropped_partitions_are_unneeded(self, store: Store) -> None:
        kept, dropped = created(store, "kept").partition_ids[0], created(store).partition_ids[0]
        keys = [(kept, "g"), (kept, "h"), (dropped, "g")]
        expired, _, gone_too = (
            inserted(store, key, ProducerState(3, 0, 0), is_pinned=key[0] == dropped) for key in keys
        )
        for key in keys:
            batches = (AppendedBatch(only(store, key).id, epoch, a_batch(0, 0, 1)) for epoch in (2, 3))
            produced(store, *batches)
        with store.write() as tx:
            tx.producers.update(only(store, keys[0])._replace(state=ProducerState(3, 0, 0, is_expired=True)))
            tx.registry.delete("order.placed")

        assert gone(store) == [BatchRef(each, epoch, 0) for each in (expired, gone_too) for epoch in (2, 3)]

    def test_unneeded_batches_are_swept_in_limited_steps(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        expired = inserted(store, (partition_id, "g"), ProducerState(3, 0, 0, is_expired=True))
        other = inserted(store, (partition_id, "h"), ProducerState(3, 0, 0))
        for producer_id in (expired, other):
            produced(store, *(AppendedBatch(producer_id, 3, a_batch(n, n, 1)) for n in range(25)))

        told = []
        while batches := gone(store, rows=10):
            told.append(len(batches))
            with store.write() as tx:
                tx.producers.sweep(batches, 0)
                tx.producers.sweep(batches[:3], 0)  # As another one does who has seen the same.

        assert told == [10, 10, 5]
        assert found(store, expired, 3, 0, 99) == []
        assert len(found(store, other, 3, 0, 99)) == 25

    def test_next_number_survives_the_sweep_of_removed_batches(self, store: Store, database: Database) -> None:
        """The newest are kept, so where the numbers have come to is known whatever retention removes."""
        key = (created(store).partition_ids[0], "g")
        producer_id = inserted(store, key)
        produced(store, *(AppendedBatch(producer_id, 0, a_batch(n, n, 1)) for n in range(9)))
        sift(database, key[0], 9)

        with store.write() as tx:
            tx.producers.sweep(tx.producers.list_unneeded_batches(99, 2), 0)

        assert only(store, key).state == ProducerState(0, 0, 9, 8)
        assert found(store, producer_id, 0, 0, 99) == [a_batch(7, 7, 1), a_batch(8, 8, 1)]

    def test_purge_of_a_dropped_event_type_ends_and_leaves_no_row(self, store: Store, database: Database) -> None:
        kept, dropped = created(store, "kept"), created(store, partitions=3)
        for partition_id in (*kept.partition_ids, *dropped.partition_ids):
            for name in ("g", "h"):
                producer_id = inserted(store, (partition_id, name), is_pinned=name == "h")
                produced(store, *(AppendedBatch(producer_id, 0, a_batch(n, n, 1)) for n in range(7)))
            append(store, *(row(partition_id, n) for n in range(7)))
        inserted(store, (kept.partition_ids[0], "expired"), ProducerState(3, 0, 0, is_expired=True))
        with store.write() as tx:
            tx.registry.delete("order.placed")

        turns = 0
        while swept(store):
            turns += 1
            assert turns < 100

        assert rows(database) == (1, 3, 14)
        assert [each.name for each in listed(store, kept.partition_ids[0])] == ["expired", "g", "h"]
        with store.read() as tx:
            assert [tx.log.read_columns(each, 0, 9).rows for each in dropped.partition_ids] == [0, 0, 0]


class ProducedDefenceContract(Contract):
    """The database itself refuses to give a number twice, and to change a batch."""

    @pytest.fixture
    def numbered(self, store: Store) -> int:
        """Return a producer with the numbers 4 to 7 and 12 to 15."""
        producer_id = inserted(store, (created(store).partition_ids[0], "g"))
        produced(
            store, AppendedBatch(producer_id, 0, a_batch(4, 0, 4)), AppendedBatch(producer_id, 0, a_batch(12, 4, 4))
        )
        return producer_id

    @pytest.mark.parametrize(
        ("first", "events"),
        [(4, 4), (4, 1), (7, 1), (5, 2), (3, 2), (0, 5), (7, 5), (7, 6), (8, 5), (11, 2), (0, 99), (15, 9), (12, 4)],
    )
    def test_database_refuses_a_number_that_was_given(
        self, store: Store, numbered: int, first: int, events: int
    ) -> None:
        with pytest.raises(Exception, match="penstock: a number of a producer is given to one event only"):
            produced(store, AppendedBatch(numbered, 0, a_batch(first, 100, events)))

        assert found(store, numbered, 0, 0, 99) == [a_batch(4, 0, 4), a_batch(12, 4, 4)]

    @pytest.mark.parametrize(("first", "events"), [(0, 4), (8, 4), (8, 1), (11, 1), (16, 99), (1 << 60, 1)])
    def test_number_that_was_not_given_is_accepted(self, store: Store, numbered: int, first: int, events: int) -> None:
        produced(store, AppendedBatch(numbered, 0, a_batch(first, 100, events)))

        assert a_batch(first, 100, events) in found(store, numbered, 0, 0, 1 << 61)

    def test_numbers_are_given_by_producer_and_epoch(self, store: Store, numbered: int) -> None:
        other = inserted(store, (created(store, "another").partition_ids[0], "g"))

        produced(store, AppendedBatch(numbered, 1, a_batch(4, 100, 4)), AppendedBatch(other, 0, a_batch(4, 200, 4)))

        assert found(store, other, 0, 4, 5) == [a_batch(4, 200, 4)]

    def test_number_given_twice_in_a_transaction_undoes_it(self, store: Store, numbered: int) -> None:
        with pytest.raises(Exception, match="is given to one event only"):
            produced(store, *(AppendedBatch(numbered, 1, a_batch(first, first, 2)) for first in (0, 2, 3)))

        assert found(store, numbered, 1, 0, 99) == []

    @pytest.mark.parametrize("change", CHANGES)
    def test_database_refuses_to_change_batches(
        self, store: Store, database: Database, numbered: int, change: str
    ) -> None:
        produced(store, AppendedBatch(numbered, 1, a_batch(7, 100, 1)))

        with pytest.raises(Exception, match="penstock: what was produced is never changed"):
            database.run(change)

        assert found(store, numbered, 0, 0, 99) == [a_batch(4, 0, 4), a_batch(12, 4, 4)]

    @pytest.mark.parametrize(
        "given",
        [
            (-1, 1, 0, FIRST_AT, b"x" * 16),
            (50, 0, 0, FIRST_AT, b""),
            (50, 2, 0, FIRST_AT, b"x" * 16),
            (50, 1, 0, FIRST_AT, b"x" * 17),
            (50, 1, -1, FIRST_AT, b"x" * 16),
        ],
        ids=["number", "no events", "too few digests", "more than a digest", "offset"],
    )
    def test_database_refuses_impossible_batches(
        self, database: Database, numbered: int, given: tuple[Any, ...]
    ) -> None:
        with pytest.raises(Exception, match=r"(?i)check"):
            database.run(ADD, numbered, 0, *given)


def found(store: Store, producer_id: int, epoch: int, first: int, stop: int) -> Sequence[StoredBatch]:
    with store.read() as tx:
        return tx.producers.list_batches(producer_id, epoch, first, stop)


def gone(store: Store, rows: int = 99, kept: int = 16) -> list[BatchRef]:
    """Return the unneeded batches, sorted."""
    with store.read() as tx:
        return sorted(tx.producers.list_unneeded_batches(rows, kept))


def sift(database: Database, partition_id: int, floor: int) -> None:
    """Let retention remove what lies below *floor*."""
    database.run("UPDATE penstock_partition SET floor = ? WHERE id = ?", floor, partition_id)


def swept(store: Store) -> int:
    """Remove some rows that nobody needs, as the sweeper does, and return how many."""
    with store.write() as tx:
        if batches := tx.producers.list_unneeded_batches(10, 16):
            tx.producers.sweep(batches, 0)
            return len(batches)
        expired = tx.producers.sweep((), FIRST_AT)
    return expired + purge(store)


def rows(database: Database) -> tuple[int, int, int]:
    """Return how many partitions, producers and batches there are."""
    tables = ("penstock_partition", "penstock_producer", "penstock_produced")
    partitions, producers, batches = (database.run(f"SELECT count(*) FROM {table}")[0][0] for table in tables)
    return partitions, producers, batches
