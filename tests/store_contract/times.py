"""The contract of times in the log: `LogRepository.find_first_offsets` and `find_receive_times`."""

import pytest

from penstock.storage import Store
from tests.store_contract.database import FIRST_AT, Contract, append, created, row


class TimesContract(Contract):
    """The first event that was received at a time or later is found, wherever it lies."""

    @pytest.mark.parametrize(
        "received",
        [
            [],
            [10],
            [10, 20],
            [10, 10, 10],
            [10, 10, 20, 20, 20, 30],
            [*range(0, 330, 10)],
            [10] * 100 + [20] + [30] * 100,
        ],
        ids=len,
    )
    def test_first_event_received_at_a_time_or_later_is_found(self, store: Store, received: list[int]) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, *(row(partition_id, n, received_at=FIRST_AT + at) for n, at in enumerate(received)))
        ends = {(0, len(received)), (len(received) // 3, len(received)), (0, len(received) // 2)}

        with store.read() as tx:
            for start, stop in ends:
                for at in (-5, 0, 9, 10, 11, 20, 25, 30, 100, 320, 321):
                    later = (offset for offset in range(start, stop) if received[offset] >= at)
                    found = tx.log.find_first_offsets({partition_id: (start, stop)}, FIRST_AT + at)
                    assert found == {partition_id: next(later, stop)}, (start, stop, at)

    def test_each_partition_is_looked_up_by_itself(self, store: Store) -> None:
        partition_ids = created(store, partitions=9).partition_ids
        append(
            store, *(row(each, n, received_at=FIRST_AT + n) for at, each in enumerate(partition_ids) for n in range(at))
        )
        ranges = {each: (0, at) for at, each in enumerate(partition_ids)}

        with store.read() as tx:
            found = tx.log.find_first_offsets(ranges, FIRST_AT + 4)
            assert tx.log.find_first_offsets({}, FIRST_AT) == {}

        assert found == {each: min(at, 4) for at, each in enumerate(partition_ids)}

    def test_next_event_is_found_where_one_was_removed(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        kept = (3, 4, 9, 10, 17)
        append(store, *(row(partition_id, n, received_at=FIRST_AT + n) for n in kept))

        with store.read() as tx:
            for at in range(20):
                found = tx.log.find_first_offsets({partition_id: (0, 18)}, FIRST_AT + at)[partition_id]
                assert [n for n in kept if n >= found] == [n for n in kept if n >= at]
                assert 0 <= found <= 18

    def test_receive_time_is_that_of_the_first_event_from_an_offset_on(self, store: Store) -> None:
        first, second, empty = created(store, partitions=3).partition_ids
        kept = (3, 4, 9)
        append(
            store, *(row(first, n, received_at=FIRST_AT + n) for n in kept), row(second, 0, received_at=FIRST_AT + 50)
        )

        with store.read() as tx:
            for offset in range(12):
                found = tx.log.find_receive_times({empty: offset, second: 0, first: offset})
                later = [n for n in kept if n >= offset]
                assert found == {second: FIRST_AT + 50} | ({first: FIRST_AT + later[0]} if later else {}), offset
            assert tx.log.find_receive_times({second: 1}) == {}
            assert tx.log.find_receive_times({first: 1 << 60}) == {}
            assert tx.log.find_receive_times({}) == {}
