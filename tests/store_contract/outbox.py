"""The contract of the outbox: `penstock.storage.log.outbox.OutboxRepository`."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from penstock.storage import Store
from penstock.storage.log.outbox import OutboxRow
from penstock.storage.store import AppendPlan
from tests.store_contract.database import Contract, Database, created, row

BYTES_MAX = 1 << 20
AWKWARD = '{"x":"\\u0000 \t \' \\" 東京 🚰 %s \\\\N"}'


class OutboxContract(Contract):
    """Rows are taken once, in their order, by the transaction that takes them and by no other."""

    def test_an_empty_outbox_has_nothing_to_give(self, store: Store) -> None:
        assert _waiting(store, None) == []
        assert _waiting(store, ["a", "b"]) == []
        assert _taken(store, "a") == []

    def test_waiting_names_the_event_types_with_rows_even_unknown_ones(self, store: Store, database: Database) -> None:
        created(store, "known")
        _commit(database, ("known", "{}"), ("unknown", "{}"), ("known", "{}"))

        assert sorted(_waiting(store, None)) == ["known", "unknown"]
        assert _waiting(store, ["unknown", "idle"]) == ["unknown"]
        assert _waiting(store, []) == []

    def test_waiting_tells_the_same_until_the_rows_are_taken(self, store: Store, database: Database) -> None:
        _commit(database, ("a", "{}"), ("b", "{}"))

        assert [sorted(_waiting(store, None)) for _ in range(3)] == [["a", "b"]] * 3
        _taken(store, "a")
        assert [_waiting(store, None) for _ in range(3)] == [["b"]] * 3
        assert _waiting(store, ["a"]) == []

    def test_every_store_sees_for_itself_what_waits(self, store: Store, other: Store, database: Database) -> None:
        _commit(database, ("a", "{}"))
        assert (_waiting(store, None), _waiting(other, None)) == (["a"], ["a"])

        _taken(other, "a")

        assert (_taken(store, "a"), _waiting(store, None), _waiting(other, None)) == ([], [], [])

    def test_rows_that_wait_are_counted_up_to_a_limit(self, store: Store, other: Store, database: Database) -> None:
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

    def test_nothing_waits_that_was_not_committed(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as connection:
            database.insert(connection, "a", "{}")
            during = _waiting(store, None), _waiting(store, ["a"])
            connection.rollback()

        assert during == ([], [])
        assert _waiting(store, None) == []

    def test_a_row_is_taken_as_it_was_inserted(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as connection:
            database.insert(connection, "a", AWKWARD, key="k\t\\", headers='{"h":"ü"}', partition=3)
            database.insert(connection, "a", " { }\n")
            connection.commit()

        first, second = _taken(store, "a")

        assert first[1:6] == ("a", AWKWARD, "k\t\\", '{"h":"ü"}', 3)
        assert second[1:6] == ("a", " { }\n", None, None, None)
        assert first.id < second.id
        assert first.created_at[:2] == "20"

    def test_rows_are_taken_in_their_order_and_once(self, store: Store, database: Database) -> None:
        _commit(database, *(("a" if n % 3 else "b", str(n)) for n in range(30)))

        first = [row.data for row in _taken(store, "a", 7)]
        then = [row.data for row in _taken(store, "a", 100)]

        assert first + then == [str(n) for n in range(30) if n % 3]
        assert len(first) == 7
        assert _taken(store, "a", 100) == []
        assert [row.data for row in _taken(store, "b", 100)] == [str(n) for n in range(0, 30, 3)]

    def test_a_full_take_leaves_the_rest_waiting(self, store: Store, database: Database) -> None:
        _commit(database, *(("a", str(n)) for n in range(6)))

        counts = []
        while _waiting(store, ["a"]):
            counts.append(len(_taken(store, "a", 3)))

        assert [count for count in counts if count] == [3, 3]

    def test_a_take_tells_how_much_more_waits(self, store: Store, database: Database) -> None:
        _commit(database, *(("a", str(n)) for n in range(6)), ("b", "{}"))

        with store.write() as tx:
            first, rest = tx.outbox.take("a", 4, BYTES_MAX), tx.outbox.take("a", 4, BYTES_MAX)
            nothing = tx.outbox.take("a", 4, BYTES_MAX)

        assert (len(first.rows), first.more, first.last) == (4, True, rest.rows[-1].id)
        assert (len(rest.rows), rest.more, rest.last) == (2, False, rest.rows[-1].id)
        assert (list(nothing.rows), nothing.more, nothing.last) == ([], False, 0)

    @pytest.mark.parametrize(("bytes_max", "taken"), [(1, 1), (10, 1), (11, 2), (30, 3), (31, 4), (1000, 5)])
    def test_a_take_is_bounded_in_bytes(self, store: Store, database: Database, bytes_max: int, taken: int) -> None:
        _commit(database, *(("a", "x" * 10) for _ in range(5)))

        with store.write() as tx:
            found = tx.outbox.take("a", 100, bytes_max)

        assert (len(found.rows), found.more) == (taken, taken < 5)
        assert len(_taken(store, "a")) == 5 - taken

    def test_an_undone_take_leaves_the_rows(self, store: Store, database: Database) -> None:
        _commit(database, ("a", "1"), ("a", "2"))

        with pytest.raises(ZeroDivisionError), store.write() as tx:
            assert len(tx.outbox.take("a", 10, BYTES_MAX).rows) == 2
            raise ZeroDivisionError

        assert _waiting(store, ["a"]) == ["a"]
        assert [row.data for row in _taken(store, "a")] == ["1", "2"]

    def test_rows_inserted_after_a_take_wait_anew(self, store: Store, database: Database) -> None:
        seen = []
        for n in range(5):
            _commit(database, ("a", str(n)))
            assert _waiting(store, ["a"]) == ["a"]
            seen += [row.data for row in _taken(store, "a")]

        assert seen == ["0", "1", "2", "3", "4"]


class LateCommits(Contract):
    """Where transactions write at the same time, a lower id can be committed after a higher one was taken."""

    def test_a_row_that_is_committed_late_is_taken_all_the_same(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as late, closing(database.connect()) as early:
            database.insert(late, "a", "late")
            database.insert(early, "a", "early")
            early.commit()
            assert [row.data for row in _taken(store, "a")] == ["early"]
            assert _waiting(store, None) == []

            late.commit()

            assert _waiting(store, None) == ["a"]
            assert [row.data for row in _taken(store, "a")] == ["late"]

    def test_a_row_that_is_committed_after_many_looks_is_taken(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as late:
            database.insert(late, "a", "late")
            for n in range(20):
                _commit(database, ("a", str(n)), ("b", str(n)))
                assert len(_taken(store, "a")) == 1
                _waiting(store, None)

            late.commit()

        assert [row.data for row in _taken(store, "a")] == ["late"]
        assert len(_taken(store, "b")) == 20

    def test_a_savepoint_changes_nothing(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as late:
            late.execute("SAVEPOINT inner_one")
            database.insert(late, "a", "late")
            late.execute("RELEASE SAVEPOINT inner_one")
            _commit(database, ("a", "early"))
            assert [row.data for row in _taken(store, "a")] == ["early"]

            late.commit()

        assert _waiting(store, ["a"]) == ["a"]
        assert [row.data for row in _taken(store, "a")] == ["late"]

    def test_a_full_take_does_not_lose_those_who_come_late(self, store: Store, database: Database) -> None:
        with closing(database.connect()) as late:
            database.insert(late, "a", "late")
            _commit(database, *(("a", str(n)) for n in range(6)))
            assert len(_taken(store, "a", 3)) == 3
            late.commit()

        rest = [row.data for _ in range(3) for row in _taken(store, "a", 3)]
        assert sorted(rest) == ["3", "4", "5", "late"]

    def test_two_takers_share_no_row(self, store: Store, other: Store, database: Database) -> None:
        from concurrent.futures import ThreadPoolExecutor

        _commit(database, *(("a", str(n)) for n in range(200)))

        def drain(store: Store) -> list[str]:
            found: list[str] = []
            while rows := _taken(store, "a", 7):
                found += [row.data for row in rows]
            return found

        with ThreadPoolExecutor(4) as threads:
            found = [row for rows in threads.map(drain, [store, other, store, other]) for row in rows]

        assert sorted(found, key=int) == [str(n) for n in range(200)]

    def test_what_a_transaction_is_opened_for_is_locked_where_nothing_waits(
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

    def test_an_outbox_comes_before_what_a_transaction_is_opened_for(self, store: Store, database: Database) -> None:
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

    def test_a_transaction_that_is_opened_is_undone_as_any(self, store: Store) -> None:
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
