"""The contract of rejected rows: `penstock.storage.log.outbox.OutboxRepository`."""

import re
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

from penstock.storage import Store, Tx
from penstock.storage.log.outbox import OutboxRow, RejectedRow
from tests.store_contract.database import FIRST_AT, Contract, Database, together

AWKWARD = '{"x":"\\u0000 \t \' \\" 東京 🚰 %s \\\\N"}'
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class RejectedContract(Contract):
    """A rejected row is kept as it was until an operator retries or deletes it."""

    def test_rejected_row_is_kept_with_its_reason_and_retried_as_it_was(self, store: Store, database: Database) -> None:
        assert (_listed(store), _found(store), _retried(store), _deleted(store)) == ([], [], 0, 0)
        with closing(database.connect()) as connection:
            database.insert(connection, "a", AWKWARD, key="k\t", headers='{"h":"ü"}', partition=3)
            connection.commit()
        with store.write() as tx:
            (before,) = _take(tx, "a")
            tx.outbox.reject([(before, "it's \\ no good")], FIRST_AT)

        (row,) = _listed(store)
        assert row[1:6] == before[1:6] == ("a", AWKWARD, "k\t", '{"h":"ü"}', 3)
        assert row.reason == "it's \\ no good"
        assert TIME.fullmatch(row.created_at)
        assert row.rejected_at == "2023-11-14T22:13:20.000Z"
        assert _waiting(store) == []

        assert (_retried(store), _listed(store), _waiting(store)) == (1, [], ["a"])
        (after,) = _taken(store, "a")
        assert after[1:] == before[1:]

    def test_rejected_rows_are_counted_up_to_a_limit_and_listed_from_either_end(
        self, store: Store, database: Database
    ) -> None:
        _reject(store, database, *(("a", str(n)) for n in range(5)))

        with store.read() as tx:
            assert [tx.outbox.count(limit).rejected for limit in (1, 5, 100)] == [1, 5, 5]
        assert [row.data for row in _listed(store, 2)] == ["4", "3"]
        assert [row.data for row in _listed(store, 3, newest=False)] == ["0", "1", "2"]

    def test_rejected_rows_are_selected_by_id_and_event_type(self, store: Store, database: Database) -> None:
        _reject(store, database, ("a", "0"), ("b", "1"), ("a", "2"), ("b", "3"))
        ids = list(_found(store))

        assert [row.data for row in _listed(store, event_type="b")] == ["3", "1"]
        assert [row.data for row in _listed(store, ids=[ids[2], ids[1]])] == ["2", "1"]
        assert [row.data for row in _listed(store, ids=ids[:2], event_type="b")] == ["1"]
        assert _listed(store, ids=[]) == []
        assert _listed(store, ids=[ids[-1] + 1]) == []
        assert [row.id for row in _listed(store, newest=False)] == ids
        assert _found(store, event_type="b") == [ids[1], ids[3]]
        assert _found(store, ids=[ids[2], ids[0], ids[-1] + 1]) == [ids[0], ids[2]]
        assert _found(store, ids=ids[:2], event_type="b") == [ids[1]]
        assert _found(store, event_type="c") == []

    def test_rejected_row_of_9_megabytes_is_listed(self, store: Store, database: Database) -> None:
        data = '{"x":"' + "x" * (9 << 20) + '"}'
        _reject(store, database, ("a", data))

        assert _listed(store)[0].data == data

    def test_rows_rejected_before_a_time_are_deleted_a_few_at_a_time(self, store: Store, database: Database) -> None:
        _reject(store, database, *(("a", str(n)) for n in range(5)))
        with store.write() as tx:
            for at, row in enumerate(tx.outbox.list_rejected(9, newest=False)):
                assert tx.outbox.delete_rejected(ids=[row.id]) == 1
                again = OutboxRow(row.id, row.event_type, row.data, row.key, row.headers, None, row.created_at)
                tx.outbox.reject([(again, "no good")], FIRST_AT + at * 1_000)

        def expire(before: int, rows: int) -> int:
            with store.write() as tx:
                return tx.outbox.expire_rejected(before, rows)

        assert [expire(FIRST_AT, 9), expire(FIRST_AT + 2_500, 2), expire(FIRST_AT + 2_500, 2)] == [0, 2, 1]
        assert [row.data for row in _listed(store, newest=False)] == ["3", "4"]

    def test_retried_rows_keep_their_order(self, store: Store, database: Database) -> None:
        _reject(store, database, *(("ab"[n % 2], str(n)) for n in range(60)))

        assert _retried(store, event_type="a") == 30
        assert [row.data for row in _taken(store, "a")] == [str(n) for n in range(0, 60, 2)]
        assert _taken(store, "b") == []

        ids = [row.id for row in _listed(store, 9)]
        assert _retried(store, ids=ids) == 9
        assert [row.data for row in _taken(store, "b")] == [str(n) for n in range(43, 60, 2)]
        assert len(_found(store)) == 21

    def test_repaired_rows_are_retried_in_their_order_behind_waiting_ones(
        self, store: Store, database: Database
    ) -> None:
        _reject(store, database, *(("a", str(n)) for n in range(4)))
        first, second = _found(store)[:2]
        for row_id, data in ((second, "1 repaired"), (first, "0 repaired")):
            database.run("UPDATE penstock_rejected SET data = ? WHERE id = ?", data, row_id)
        with closing(database.connect()) as connection:
            database.insert(connection, "a", "waiting")
            connection.commit()

        _retried(store)

        assert [row.data for row in _taken(store, "a")] == ["waiting", "0 repaired", "1 repaired", "2", "3"]

    def test_each_store_sees_a_retried_row_after_earlier_looks(
        self, store: Store, other: Store, database: Database
    ) -> None:
        for _ in range(3):
            _reject(store, database, ("a", "again"))
            assert (_waiting(store), _waiting(other)) == ([], [])

            assert _retried(other) == 1

            assert (_waiting(store), _waiting(other)) == (["a"], ["a"])
            assert [row.data for row in _taken(store, "a")] == ["again"]
            assert _taken(other, "a") == []

    def test_selected_rejected_rows_are_deleted(self, store: Store, database: Database) -> None:
        _reject(store, database, ("a", "0"), ("b", "1"), ("a", "2"), ("b", "3"))

        assert _deleted(store, ids=_found(store)[:1]) == 1
        assert _deleted(store, event_type="b") == 2
        assert [row.data for row in _listed(store)] == ["2"]
        assert (_deleted(store), _deleted(store)) == (1, 0)
        assert _waiting(store) == []


class LateRetries(Contract):
    """Where several transactions write at once, two may retry the same row, and a retry may be committed late."""

    def test_concurrent_retries_retry_each_row_once(self, store: Store, other: Store, database: Database) -> None:
        _reject(store, database, *(("a", str(n)) for n in range(50)))

        assert sum(together(partial(_retried, store), partial(_retried, other))) == 50
        assert [row.data for row in _taken(store, "a")] == [str(n) for n in range(50)]

    def test_retry_committed_after_a_later_row_was_taken_is_taken(
        self, store: Store, other: Store, database: Database
    ) -> None:
        _reject(store, database, ("a", "late"))

        with other.write() as tx:
            tx.outbox.retry_rejected()
            with closing(database.connect()) as connection:
                database.insert(connection, "a", "early")
                connection.commit()
            assert [row.data for row in _taken(store, "a")] == ["early"]
            assert _waiting(store) == []

        assert _waiting(store) == ["a"]
        assert [row.data for row in _taken(store, "a")] == ["late"]


def _reject(store: Store, database: Database, *rows: tuple[str, Any]) -> None:
    """Commit rows to the outbox, and record them as rejected in the order in which they are given."""
    with closing(database.connect()) as connection:
        for event_type, data in rows:
            database.insert(connection, event_type, data)
        connection.commit()
    with store.write() as tx:
        taken = [row for name in sorted({name for name, _ in rows}) for row in _take(tx, name)]
        tx.outbox.reject([(row, "it is no good") for row in sorted(taken)], FIRST_AT)


def _listed(store: Store, limit: int = 100, **chosen: Any) -> Sequence[RejectedRow]:
    with store.read() as tx:
        return tx.outbox.list_rejected(limit, **chosen)


def _found(store: Store, **chosen: Any) -> Sequence[int]:
    with store.read() as tx:
        return tx.outbox.find_rejected(**chosen)


def _retried(store: Store, **chosen: Any) -> int:
    with store.write() as tx:
        return tx.outbox.retry_rejected(**chosen)


def _deleted(store: Store, **chosen: Any) -> int:
    with store.write() as tx:
        return tx.outbox.delete_rejected(**chosen)


def _waiting(store: Store) -> Sequence[str]:
    with store.read() as tx:
        return tx.outbox.find_waiting(None)


def _taken(store: Store, name: str) -> Sequence[OutboxRow]:
    with store.write() as tx:
        return _take(tx, name)


def _take(tx: Tx, name: str) -> Sequence[OutboxRow]:
    return tx.outbox.take(name, 1000, 1 << 30).rows
