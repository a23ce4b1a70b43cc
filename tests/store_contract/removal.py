"""The contract of removing events: floors that rise, what is below them, and the sizes by which they rise."""

import pytest

from penstock.storage import Store
from penstock.storage.log.events import Block
from penstock.storage.log.removal import Compaction, CompactionProgress, UnsweptRange
from tests.store_contract.database import FIRST_AT, Contract, Database, append, created, data_of, purge, row


class RemovalContract(Contract):
    """Floors rise, and never fall; the events below them can be found and deleted."""

    def test_floor_rises_and_never_falls(self, store: Store) -> None:
        first, second = created(store, partitions=2).partition_ids
        append(store, *(row(first, n) for n in range(5)))

        with store.write() as tx:
            assert [tx.removal.raise_floor(first, floor) for floor in (2, 2, 1, 4)] == [True, False, False, True]
            assert not tx.removal.raise_floor(999_999, 4)

        with store.read() as tx:
            heads = tx.log.find_heads([first, second])
        assert [heads[each][1:3] for each in (first, second)] == [(4, 5), (0, 0)]

    def test_partition_whose_floor_is_above_all_its_events_continues_there(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n, received_at=FIRST_AT + n) for n in range(5)))
        with store.write() as tx:
            tx.removal.raise_floor(partition_id, 5)

        for _ in range(2):
            with store.write() as tx:
                assert tx.log.find_heads([partition_id], lock=True)[partition_id][1:4] == (5, 5, FIRST_AT + 4)
            assert purge(store) in (0, 5)
        append(store, row(partition_id, 5, received_at=FIRST_AT + 9))

        with store.read() as tx:
            assert tx.log.find_heads([partition_id])[partition_id][1:4] == (5, 6, FIRST_AT + 9)

    def test_events_below_floors_are_found_and_deleted_to_the_last(self, store: Store) -> None:
        first, second, third = created(store, partitions=3).partition_ids
        for each in (first, second, third):
            append(store, *(row(each, n) for n in range(25)))
        with store.write() as tx:
            tx.removal.raise_floor(first, 7)
            tx.removal.raise_floor(third, 25)

        with store.read() as tx:
            assert tx.removal.list_unswept(1) == [UnsweptRange(first, 0, 7)]
            assert tx.removal.list_unswept(9) == [UnsweptRange(first, 0, 7), UnsweptRange(third, 0, 25)]
        with store.write() as tx:
            assert tx.removal.delete(first, 0, 5) == 5
        with store.read() as tx:
            assert tx.removal.list_unswept(1) == [UnsweptRange(first, 5, 7)]
        assert [purge(store, 20) for _ in range(4)] == [2, 20, 5, 0]

        with store.read() as tx:
            left = [tx.log.read_columns(each, floor, 25).rows for each, floor in ((first, 7), (second, 0), (third, 0))]
        assert left == [18, 25, 0]

    @pytest.mark.parametrize(("start", "stop"), [(3, 6), (4, 5)])
    def test_events_above_the_floor_are_not_deleted(self, store: Store, start: int, stop: int) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n) for n in range(6)))
        with store.write() as tx:
            tx.removal.raise_floor(partition_id, 4)

        with pytest.raises(Exception, match="penstock: events are removed by"), store.write() as tx:
            tx.removal.delete(partition_id, start, stop)

        with store.read() as tx:
            assert tx.log.read_columns(partition_id, 0, 6).rows == 6

    def test_size_is_that_of_the_data(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n, "ø".encode() * n, key="key", headers="{}") for n in range(6)))

        with store.read() as tx:
            sizes = [tx.removal.measure_size(partition_id, *each) for each in ((0, 6), (2, 4), (3, 3), (6, 9))]
            assert sizes == [30, 10, 0, 0]
            stops = [tx.removal.find_size_stop(partition_id, 1, 6, size) for size in (1, 2, 3, 12, 13, 30, 31, 99)]
            assert stops == [2, 2, 3, 4, 5, 6, 6, 6]

    # One by one

    def test_removed_events_are_gone_and_their_offsets_recorded(self, store: Store) -> None:
        first, second = created(store, partitions=2).partition_ids
        for each in (first, second):
            append(store, *(row(each, n, b"%d" % n, received_at=FIRST_AT + n // 3) for n in range(12)))

        assert [remove(store, first, *each) for each in ((2, 3, 7), (4,), (3, 6), (9,), (8,))] == [3, 1, 1, 1, 1]

        with store.read() as tx:
            assert tx.removal.list_holes(first, 0, 12) == [(2, 5), (6, 10)]
            assert [tx.removal.list_holes(first, *each) for each in ((0, 2), (4, 6), (5, 6), (6, 7), (10, 12))] == [
                [], [(2, 5)], [(2, 5)], [(6, 10)], [(6, 10)]
            ]  # fmt: skip
            assert tx.removal.list_holes(second, 0, 12) == []
            assert [tx.removal.count_removed(first, each) for each in (0, 3, 5, 7, 10)] == [7, 6, 4, 3, 0]
            assert tx.removal.count_removed(second, 0) == 0
            assert data_of(tx.log.read_columns(first, 0, 12)) == [b"0", b"1", b"5", b"10", b"11"]
            assert tx.log.read_columns(second, 0, 12).rows == 12

    def test_columns_with_holes_have_the_times_of_their_events(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        for at in range(4):
            rows = [
                each.rows[0] for each in (row(partition_id, n, key="k" * (n % 2)) for n in range(at * 5, at * 5 + 5))
            ]
            append(store, Block(partition_id, at * 5, FIRST_AT + at, rows))
        remove(store, partition_id, 0, 5, 6, 9, 10, 11, 12, 13, 14, 15)

        with store.read() as tx:
            found = [tx.log.read_columns(partition_id, *each) for each in ((0, 20), (5, 10), (10, 15), (4, 6))]

        times = [
            [(int(end), int(at) - FIRST_AT) for end, at in zip(*map(bytes.split, each.received), strict=True)]
            for each in found
        ]
        assert [each.rows for each in found] == [10, 2, 0, 1]
        assert times == [[(4, 0), (6, 1), (10, 3)], [(2, 1)], [], [(1, 0)]]

    def test_partition_continues_after_last_events_that_were_removed(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n) for n in range(5)))

        ends = []
        for offsets in ((1, 2), (4,), (3,), (0,)):
            remove(store, partition_id, *offsets)
            with store.write() as tx:
                ends.append(tx.log.find_heads([partition_id], lock=True)[partition_id][1:3])
        append(store, row(partition_id, 5))

        assert ends == [(0, 5)] * 4
        with store.read() as tx:
            assert tx.log.find_heads([partition_id])[partition_id][1:3] == (0, 6)
            assert tx.removal.list_holes(partition_id, 0, 9) == [(0, 5)]

    def test_time_of_the_last_event_is_known_after_it_was_removed(self, store: Store) -> None:
        first, second = created(store, partitions=2).partition_ids
        for each in (first, second):
            append(store, *(row(each, n, received_at=FIRST_AT + n) for n in range(5)))

        found = []
        for offsets in ((1,), (3, 4), (2,), (0,)):
            remove(store, first, *offsets)
            with store.read() as tx:
                found.append(tx.log.find_heads([first])[first].received_at - FIRST_AT)
        with store.write() as tx:
            tx.removal.raise_floor(first, 5)
            tx.removal.raise_floor(second, 2)
        while purge(store):
            pass

        assert found == [4] * 4
        with store.read() as tx:
            heads = tx.log.find_heads([first, second])
        assert [heads[each].received_at - FIRST_AT for each in (first, second)] == [4, 4]

    def test_progress_of_compaction_never_goes_back(self, store: Store) -> None:
        first, second = created(store, partitions=2).partition_ids
        given = [CompactionProgress(*each) for each in ((7, 3, FIRST_AT), (5, 9, None), (7, 2, None), (8, 4, None))]
        found = []

        for each in given:
            with store.write() as tx:
                tx.removal.put_compaction(first, each)
            with store.read() as tx:
                found.append(tx.removal.find_compaction(first))

        assert [each.progress for each in found] == [given[0], given[0], given[2], given[3]]
        with store.read() as tx:
            assert [tx.removal.find_compaction(each) for each in (second, 999_999)] == [
                Compaction(0, CompactionProgress(0, 0, None))
            ] * 2

    def test_event_that_is_not_there_is_recorded_and_not_counted(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n) for n in range(5)))

        assert [remove(store, partition_id, 2), remove(store, partition_id, 2, 3), remove(store, partition_id)] == [
            1,
            1,
            0,
        ]

    def test_each_removal_of_single_events_is_counted_whoever_removes(self, store: Store, database: Database) -> None:
        first, second = created(store, partitions=2).partition_ids
        append(store, *(row(each, n) for each in (first, second) for n in range(9)))
        counts = []
        for offsets in ((), (2, 3, 7), (1, 4), (8,)):
            remove(store, first, *offsets)
            with store.read() as tx:
                counts.append([head.removals for _, head in sorted(tx.log.find_heads([first, second]).items())])
        with store.write() as tx:
            tx.removal.raise_floor(first, 5)
        purge(store)
        database.run(f"INSERT INTO penstock_hole (partition_id, start, stop) VALUES ({second}, 0, 1)")  # An older hub.

        with store.read() as tx:
            counts.append([head.removals for _, head in sorted(tx.log.find_heads([first, second]).items())])
        assert counts[0] == [0, 0]
        assert counts[0] < counts[1] < counts[2] < counts[3] < counts[4]
        assert [second_count for _, second_count in counts] == [0, 0, 0, 0, 1]
        assert counts[3][0] == counts[4][0]

    def test_holes_below_the_floor_are_forgotten(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n) for n in range(30)))
        remove(store, partition_id, 3, 4, 5, 9, 10, 11, 12)
        with store.write() as tx:
            tx.removal.raise_floor(partition_id, 11)

        while purge(store, 4):
            pass

        with store.read() as tx:
            assert tx.removal.list_holes(partition_id, 0, 30) == [(9, 13)]

    def test_dropped_partition_with_holes_is_purged(self, store: Store, database: Database) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n) for n in range(9)))
        remove(store, partition_id, 3, 8)
        with store.write() as tx:
            tx.registry.delete("order.placed")

        while purge(store):
            pass

        assert database.run("SELECT count(*) FROM penstock_hole") == [(0,)]
        assert database.run("SELECT count(*) FROM penstock_partition") == [(0,)]


def remove(store: Store, partition_id: int, *offsets: int) -> int:
    """Remove events, and return how many were there."""
    with store.write() as tx:
        tx.log.find_heads([partition_id], lock=True)
        return tx.removal.remove(partition_id, offsets)
