"""The contract of the outbox: `penstock.storage.log.outbox.OutboxRepository`."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from penstock.storage import Store
from penstock.storage.log.outbox import OutboxRow
from penstock.storage.store import AppendPlan
from tests.store_contract.database import Contract, Database, created, row, together

BYTES_MAX = 1 << 20
AWKWARD = '{"x":"\\u0000 \t \' \\" 東京 🚰 %s \\\\N"}'


class OutboxContract(Contract):
    """Rows are taken once, in their order, by the transaction that takes them and by no other."""

    def test_committed_rows_wait_by_event_type_until_a_store_takes_them(
        self, store: Store, other: Store, database: Database
    ) -> None:
        created(store, "known")
        with closing(database.connect()) as connection:
            database.insert(connection, "known", "{}")
            assert (_waiting(store, None), _waiting(store, ["known"])) == ([], [])
            connection.rollback()
        assert (_waiting(store, None), _taken(store, "known")) == ([], [])
        _commit(database, ("known", "{}"), ("unknown", "{}"), ("known", "{}"))

        for each in (store, store, other):
            assert sorted(_waiting(each, None)) == ["known", "unknown"]
            assert (_waiting(each, ["unknown", "idle"]), _waiting(each, [])) == (["unknown"], [])
        assert len(_taken(other, "known")) == 2
        for each in (store, store, other):
            assert (_taken(each, "known"), _waiting(each, None), _waiting(each, ["known"])) == ([], ["unknown"], [])

    def test_waiting_rows_are_counted_up_to_a_limit(self, store: Store, other: Store, database: Database) -> None:
        assert _counted(store) == 0
        _commit(database, ("a", "{}"), ("b", "{}"), ("a", "{}"))
        with closing(database.connect()) as connection:
            database.insert(connection, "a", "{}")
            assert [_counted(each, limit) for each in (store, other) for limit in (1, 3, 100)] == [1, 3, 3] * 2
            connection.rollback()
        _waiting(store, None)
        assert (_counted(store), _counted(other)) == (3, 3)

        _taken(store, "a", 1)

        assert (_counted(store), _counted(other)) == (2, 2)
        _taken(other, "a")
        assert "b" in _waiting(store, None)
        assert (_counted(store), _counted(other)) == (1, 1)
        _taken(store, "a")
        _taken(store, "b")
        assert (_counted(store), _counted(other)) == (0, 0)

    def test_row_is_taken_as_inserted(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as connection:
            database.insert(connection, "a", AWKWARD, key="k\t\\", headers='{"h":"ü"}', partition=3)
            database.insert(connection, "a", " { }\n")
            connection.commit()

        first, second = _taken(store, "a")

        assert first[1:6] == ("a", AWKWARD, "k\t\\", '{"h":"ü"}', 3)
        assert second[1:6] == ("a", " { }\n", None, None, None)
        assert first.id < second.id
        assert first.created_at[:2] == "20"

    def test_rows_of_an_event_type_are_taken_once_in_their_order(self, store: Store, database: Database) -> None:
        _commit(database, *(("a" if n % 3 else "b", str(n)) for n in range(15)))

        with store.write() as tx:
            takes = [tx.outbox.take("a", 6, BYTES_MAX) for _ in range(2)]
        assert _waiting(store, ["a", "b"]) == ["b"]
        _commit(database, ("a", "15"))
        with store.write() as tx:
            takes += [tx.outbox.take("a", 6, BYTES_MAX) for _ in range(2)]

        wanted = [str(n) for n in range(16) if n % 3 or n == 15]
        assert [row.data for take in takes for row in take.rows] == wanted
        assert [len(take.rows) for take in takes] == [6, 4, 1, 0]
        assert [take.more for take in takes] == [True, False, False, False]
        last = [take.rows[-1].id for take in takes[1:3]]
        assert [take.last for take in takes] == [last[0], last[0], last[1], 0]
        assert [row.data for row in _taken(store, "b")] == [str(n) for n in range(0, 15, 3)]

    @pytest.mark.parametrize(("bytes_max", "taken"), [(1, 1), (10, 1), (11, 2), (30, 3), (31, 4), (1000, 5)])
    def test_take_is_bounded_in_bytes(self, store: Store, database: Database, bytes_max: int, taken: int) -> None:
        _commit(database, *(("a", "ü" * 5) for _ in range(5)))

        with store.write() as tx:
            found = tx.outbox.take("a", 100, bytes_max)

        assert (len(found.rows), found.more) == (taken, taken < 5)
        assert len(_taken(store, "a")) == 5 - taken

    def test_rows_inserted_after_a_take_wait_again(self, store: Store, database: Database) -> None:
        seen = []
        for n in range(5):
            _commit(database, ("a", str(n)))
            assert _waiting(store, ["a"]) == ["a"]
            seen += [row.data for row in _taken(store, "a")]

        assert seen == ["0", "1", "2", "3", "4"]


class LateCommits(Contract):
    """Where several transactions write at once, a row can be committed after one with a higher id was taken."""

    def test_row_committed_after_a_later_one_was_taken_is_taken(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as late, closing(database.connect()) as early:
            database.insert(late, "a", "late")
            database.insert(early, "a", "early")
            early.commit()
            assert [row.data for row in _taken(store, "a")] == ["early"]
            assert _waiting(store, None) == []

            late.commit()

            assert _waiting(store, None) == ["a"]
            assert [row.data for row in _taken(store, "a")] == ["late"]

    def test_row_committed_after_many_looks_is_taken(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as late:
            database.insert(late, "a", "late")
            for n in range(20):
                _commit(database, ("a", str(n)), ("b", str(n)))
                assert len(_taken(store, "a")) == 1
                _waiting(store, None)

            late.commit()

        assert [row.data for row in _taken(store, "a")] == ["late"]
        assert len(_taken(store, "b")) == 20

    def test_row_inserted_in_a_savepoint_and_committed_late_is_taken(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as late:
            late.execute("SAVEPOINT inner_one")
            database.insert(late, "a", "late")
            late.execute("RELEASE SAVEPOINT inner_one")
            _commit(database, ("a", "early"))
            assert [row.data for row in _taken(store, "a")] == ["early"]

            late.commit()

        assert _waiting(store, ["a"]) == ["a"]
        assert [row.data for row in _taken(store, "a")] == ["late"]

    def test_full_take_does_not_lose_a_row_committed_late(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as late:
            database.insert(late, "a", "late")
            _commit(database, *(("a", str(n)) for n in range(6)))
            assert len(_taken(store, "a", 3)) == 3
            late.commit()

        rest = [row.data for _ in range(3) for row in _taken(store, "a", 3)]
        assert sorted(rest) == ["3", "4", "5", "late"]

    def test_concurrent_takers_share_no_row(self, store: Store, other: Store, database: Database) -> None:
        _commit(database, *(("a", str(n)) for n in range(200)))

        def drain(store: Store) -> list[str]:
            found: list[str] = []
            while rows := _taken(store, "a", 7):
                found += [row.data for row in rows]
            return found

        found = [row for rows in together(*(partial(drain, each) for each in [store, other] * 2)) for row in rows]

        assert sorted(found, key=int) == [str(n) for n in range(200)]

    def test_planned_transaction_has_locked_heads_if_no_row_of_its_event_types_waits(
        self, store: Store, database: Database
    ) -> None:
        feed = created(store, "a", partitions=2)
        _commit(database, ("b", "{}"))
        with store.write(plan=AppendPlan(["a"], feed.partition_ids)) as tx:
            assert tx.locked_heads == tx.log.find_heads(feed.partition_ids)
            assert set(tx.locked_heads) == set(feed.partition_ids)
            tx.log.append([row(feed.partition_ids[0], 0)])
        with store.write(plan=AppendPlan([], feed.partition_ids)) as tx:
            assert tx.locked_heads is not None
            assert [tx.locked_heads[each].next_offset for each in feed.partition_ids] == [1, 0]

    def test_planned_transaction_has_no_locked_heads_while_rows_wait(self, store: Store, database: Database) -> None:
        feed = created(store, "a")
        opening = AppendPlan(["a", "idle"], feed.partition_ids)
        _commit(database, ("a", "1"))
        with pytest.raises(ZeroDivisionError), store.write(plan=opening) as tx:
            assert tx.locked_heads is None
            tx.outbox.take("a", 10, BYTES_MAX)
            raise ZeroDivisionError
        with store.write(plan=opening) as tx:
            assert tx.locked_heads is None, "it was undone"
            assert [each.data for each in tx.outbox.take("a", 10, BYTES_MAX).rows] == ["1"]
        with store.write(plan=opening) as tx:
            assert tx.locked_heads is not None

    def test_planned_transaction_is_undone(self, store: Store) -> None:
        feed = created(store, "a")
        with pytest.raises(ZeroDivisionError), store.write(plan=AppendPlan(["a"], feed.partition_ids)) as tx:
            tx.log.append([row(feed.partition_ids[0], 0)])
            raise ZeroDivisionError
        with store.read() as tx:
            assert tx.locked_heads is None
            assert tx.log.find_heads(feed.partition_ids)[feed.partition_ids[0]].next_offset == 0


def _commit(database: Database, *rows: tuple[str, Any]) -> None:
    with closing(database.connect()) as connection:
        for event_type, data in rows:
            database.insert(connection, event_type, data)
        connection.commit()


def _waiting(store: Store, names: list[str] | None) -> list[str]:
    with store.read() as tx:
        return list(tx.outbox.find_waiting(names))


def _counted(store: Store, limit: int = 100) -> int:
    with store.read() as tx:
        return tx.outbox.count(limit).waiting


def _taken(store: Store, name: str, rows_max: int = 100) -> Sequence[OutboxRow]:
    with store.write() as tx:
        return tx.outbox.take(name, rows_max, BYTES_MAX).rows
