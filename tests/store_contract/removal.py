"""The contract of removing events: floors that rise, what is below them, and the sizes by which they rise."""

import pytest

from penstock.storage import Store
from penstock.storage.log.events import UnsweptRange
from tests.store_contract.database import FIRST_AT, Contract, Database, append, created, purge, row


class RemovalContract(Contract):
    """Floors rise, and never fall; the events below them can be found and deleted."""

    def test_floor_rises_and_never_falls(self, store: Store) -> None:
        first, second = created(store, partitions=2).partition_ids
        append(store, *(row(first, n) for n in range(5)))

        with store.write() as tx:
            assert [tx.log.raise_floor(first, floor) for floor in (2, 2, 1, 4)] == [True, False, False, True]
            assert not tx.log.raise_floor(999_999, 4)

        with store.read() as tx:
            heads = tx.log.find_heads([first, second])
        assert [heads[each][1:3] for each in (first, second)] == [(4, 5), (0, 0)]

    def test_partition_whose_floor_is_above_all_its_events_continues_there(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n, received_at=FIRST_AT + n) for n in range(5)))
        with store.write() as tx:
            tx.log.raise_floor(partition_id, 5)

        for _ in range(2):
            with store.write() as tx:
                assert tx.log.find_heads([partition_id], lock=True)[partition_id][1:] == (5, 5, 0)
            assert purge(store) in (0, 5)
        append(store, row(partition_id, 5, received_at=FIRST_AT + 9))

        with store.read() as tx:
            assert tx.log.find_heads([partition_id])[partition_id][1:] == (5, 6, FIRST_AT + 9)

    def test_partition_continues_after_last_events_that_were_removed_one_by_one(
        self, store: Store, database: Database
    ) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n) for n in range(5)))
        database.run("INSERT INTO penstock_hole VALUES (?, 3, 5)", partition_id)
        database.run("UPDATE penstock_partition SET continues_at = 5 WHERE id = ?", partition_id)
        with store.write() as tx:
            assert tx.log.delete(partition_id, 3, 5) == 2

        with store.write() as tx:
            assert tx.log.find_heads([partition_id], lock=True)[partition_id][1:3] == (0, 5)

    def test_events_below_floors_are_found_and_deleted_to_the_last(self, store: Store) -> None:
        first, second, third = created(store, partitions=3).partition_ids
        for each in (first, second, third):
            append(store, *(row(each, n) for n in range(25)))
        with store.write() as tx:
            tx.log.raise_floor(first, 7)
            tx.log.raise_floor(third, 25)

        with store.read() as tx:
            assert tx.log.list_unswept(1) == [UnsweptRange(first, 0, 7)]
            assert tx.log.list_unswept(9) == [UnsweptRange(first, 0, 7), UnsweptRange(third, 0, 25)]
        with store.write() as tx:
            assert tx.log.delete(first, 0, 5) == 5
        with store.read() as tx:
            assert tx.log.list_unswept(1) == [UnsweptRange(first, 5, 7)]
        assert [purge(store, 20) for _ in range(4)] == [2, 20, 5, 0]

        with store.read() as tx:
            left = [tx.log.read_columns(each, floor, 25).rows for each, floor in ((first, 7), (second, 0), (third, 0))]
        assert left == [18, 25, 0]

    @pytest.mark.parametrize(("start", "stop"), [(3, 6), (4, 5)])
    def test_events_above_the_floor_are_not_deleted(self, store: Store, start: int, stop: int) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n) for n in range(6)))
        with store.write() as tx:
            tx.log.raise_floor(partition_id, 4)

        with pytest.raises(Exception, match="penstock: events are removed by"), store.write() as tx:
            tx.log.delete(partition_id, start, stop)

        with store.read() as tx:
            assert tx.log.read_columns(partition_id, 0, 6).rows == 6

    def test_size_is_that_of_the_data(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n, "ø".encode() * n, key="key", headers="{}") for n in range(6)))

        with store.read() as tx:
            sizes = [tx.log.measure_size(partition_id, *each) for each in ((0, 6), (2, 4), (3, 3), (6, 9))]
            assert sizes == [30, 10, 0, 0]
            stops = [tx.log.find_size_stop(partition_id, 1, 6, size) for size in (1, 2, 3, 12, 13, 30, 31, 99)]
            assert stops == [2, 2, 3, 4, 5, 6, 6, 6]
