"""The contract of the log's writing side: `penstock.storage.log.events.LogRepository`."""

from collections.abc import Sequence
from functools import partial

import pytest

from penstock.storage import Store
from penstock.storage.log.events import NONE, Block, PartitionHead, ReceiveTimes
from tests.store_contract.database import FIRST_AT, Contract, append, created, data_of, row, together


class LogContract(Contract):
    """Offsets are dense, heads tell where they go on, and a lock on them holds."""

    def test_heads_give_revision_floor_next_offset_and_time_of_the_newest_event(self, store: Store) -> None:
        feed = created(store, partitions=3)
        first, second, third = feed.partition_ids
        append(
            store,
            *(row(first, n) for n in range(2)),
            row(second, 0),
            row(first, 2, received_at=FIRST_AT + 7),
            *(row(second, n) for n in range(1, 9)),
        )
        heads = {
            first: PartitionHead(feed.revision, 0, 3, FIRST_AT + 7),
            second: PartitionHead(feed.revision, 0, 9, FIRST_AT + 8),
            third: PartitionHead(feed.revision, 0, 0, 0),
        }

        with store.write() as tx:
            assert tx.log.find_heads(feed.partition_ids) == heads
            assert tx.log.find_heads([*feed.partition_ids, 999_999], lock=True) == heads
            assert tx.log.find_heads([]) == {}

    @pytest.mark.parametrize("together", [True, False])
    @pytest.mark.parametrize("count", [1, 2, 3, 1023, 1024, 1025, 3001])
    def test_append_keeps_all_rows_of_any_number_of_blocks(self, store: Store, count: int, together: bool) -> None:
        partition_id = created(store).partition_ids[0]
        blocks = [row(partition_id, offset, b'{"n":%d}' % offset) for offset in range(count)]

        append(
            store, *([Block(partition_id, 0, FIRST_AT, [block.rows[0] for block in blocks])] if together else blocks)
        )

        with store.read() as tx:
            assert tx.log.find_heads([partition_id])[partition_id].next_offset == count
            found = tx.log.read_columns(partition_id, 0, count)
        assert (found.stop, found.rows) == (count, count)
        if together:
            assert found.received == ReceiveTimes(b"%d" % count, b"%d" % FIRST_AT)
        assert data_of(found) == [b'{"n":%d}' % offset for offset in range(count)]

    @pytest.mark.parametrize("used", range(8))
    @pytest.mark.parametrize("empty", [0, 2, 299])
    def test_columns_of_a_block_are_kept_whichever_it_uses(self, store: Store, used: int, empty: int) -> None:
        first, second = created(store, partitions=2).partition_ids
        texts, rows = ["k\\n", None, "\t", "", "ø\\N"], 300

        def text(n: int, column: int) -> str | None:
            """Return nothing in a column that is not used, nor in the first rows."""
            return texts[(n - empty + column) % len(texts)] if n >= empty and used >> column & 1 else None

        own = [(text(n, 0), text(n, 1), text(n, 2), b'{"\\t":"\\\\",\t"n":%d}' % n) for n in range(rows)]

        append(
            store, Block(first, 0, FIRST_AT, own), Block(second, 0, FIRST_AT + 1, [(None, None, None, b"{}")] * rows)
        )

        with store.read() as tx:
            found, beside = (tx.log.read_columns(each, 0, rows) for each in (first, second))
        columns = [
            None if column is None else column.split(b"\n") for column in (found.keys, found.kinds, found.headers)
        ]
        assert columns == [_joinable(column) for column in list(zip(*own, strict=True))[:3]]
        assert data_of(found) == [data for *_, data in own]
        assert beside.keys is beside.kinds is beside.headers is None
        assert data_of(beside) == [b"{}"] * rows

    def test_taken_or_negative_offset_is_refused_and_undoes_its_transaction(self, store: Store) -> None:
        partition_id = created(store).partition_ids[0]
        append(store, row(partition_id, 0))

        with pytest.raises(Exception, match=r"(?i)unique"):
            append(store, row(partition_id, 1), row(partition_id, 0))
        with pytest.raises(Exception, match=r"(?i)check|from 0"):
            append(store, row(partition_id, -1))

        with store.read() as tx:
            assert tx.log.find_heads([partition_id])[partition_id].next_offset == 1

    @pytest.mark.parametrize("count", [1, 100])
    def test_transaction_that_appends_twice_continues_after_its_own_events(self, store: Store, count: int) -> None:
        feed = created(store, partitions=2)
        partition_id, other_id = feed.partition_ids

        with store.write() as tx:
            for _ in range(3):
                head = tx.log.find_heads([partition_id], lock=True)[partition_id]
                tx.log.append([row(partition_id, head.next_offset + at) for at in range(count)])
            assert tx.log.find_heads([other_id])[other_id].next_offset == 0

        with store.read() as tx:
            assert tx.log.find_heads([partition_id])[partition_id].next_offset == 3 * count

    def test_concurrent_writers_of_a_partition_append_in_turn(self, store: Store, other: Store) -> None:
        partition_id = created(store).partition_ids[0]
        stores, each = [store, other] * 2, 25

        def write(store: Store) -> None:
            for _ in range(each):
                with store.write() as tx:
                    head = tx.log.find_heads([partition_id], lock=True)[partition_id]
                    tx.log.append([row(partition_id, head.next_offset)])

        together(*(partial(write, store) for store in stores))

        with store.read() as tx:
            assert tx.log.read_columns(partition_id, 0, 1000).rows == len(stores) * each
            assert tx.log.find_heads([partition_id])[partition_id].next_offset == len(stores) * each

    def test_writers_of_overlapping_partitions_never_deadlock(self, store: Store, other: Store) -> None:
        feeds = [created(store, name, partitions=2) for name in ("a", "b", "c")]
        ids = sorted(each for feed in feeds for each in feed.partition_ids)
        subsets = [ids, ids[::2], ids[1::2], ids[2:]]

        def write(store: Store, wanted: list[int]) -> None:
            for _ in range(15):
                with store.write() as tx:
                    heads = tx.log.find_heads(wanted, lock=True)
                    tx.log.append([row(each, heads[each].next_offset) for each in wanted])

        together(*(partial(write, *each) for each in zip([store, other] * 2, subsets, strict=True)))

        with store.read() as tx:
            found = [head.next_offset for _, head in sorted(tx.log.find_heads(ids).items())]
        assert found == [15 * sum(each in subset for subset in subsets) for each in ids]

    def test_watcher_notices_commits_of_others(self, store: Store, other: Store) -> None:
        partition_id = created(store).partition_ids[0]
        watcher = other.watch()
        watcher.has_changed()

        append(store, row(partition_id, 0))

        assert watcher.has_changed()
        watcher.close()


def _joinable(values: Sequence[str | None]) -> list[bytes] | None:
    """Return a column as it is split out of what was joined; None where all are NULL."""
    if values.count(None) == len(values):
        return None
    return [NONE if value is None else value.encode() for value in values]
