"""An append takes two exchanges with PostgreSQL: one begins, looks and locks, one inserts and commits."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from penstock.core.registry.event_type import StoredFeed
from penstock.errors import DatabaseUnavailable
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.store import AppendPlan
from tests.store_contract.database import Database, created, database_at, row, until_waiting


@pytest.fixture
def store(migrated_postgres_url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(migrated_postgres_url)) as store:
        yield store


@pytest.fixture
def database(migrated_postgres_url: str) -> Database:
    return database_at(migrated_postgres_url)


@pytest.fixture
def feed(store: PostgresStore) -> StoredFeed:
    return created(store, "a")


def opening(feed: StoredFeed) -> AppendPlan:
    return AppendPlan([feed.event_type.name], feed.partition_ids)


def lock(store: PostgresStore, feed: StoredFeed, *, patience: str = "0") -> int:
    """Lock the heads of a feed in another transaction; how many there are."""
    with store.write() as tx:
        tx._connection.execute(f"SET LOCAL lock_timeout = '{patience}'")
        return len(tx.log.find_heads(feed.partition_ids, lock=True))


def test_append_of_few_events_takes_two_exchanges(
    store: PostgresStore, feed: StoredFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    execute = psycopg.Cursor.execute

    def noted(self: Any, query: Any, *given: Any, **options: Any) -> Any:
        asked.append(query.decode() if isinstance(query, bytes) else query)
        return execute(self, query, *given, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    with store.write(plan=opening(feed)) as tx:
        tx.log.append([row(feed.partition_ids[0], 0)])
        assert len(asked) == 1, "it begins, looks and locks"
    assert len(asked) == 2, asked
    assert asked[1].startswith("INSERT INTO penstock_event ")
    assert asked[1].endswith("COMMIT")


def test_heads_are_locked_until_the_transaction_ends(store: PostgresStore, feed: StoredFeed) -> None:
    with store.write(plan=opening(feed)) as tx:
        assert tx.locked_heads
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            lock(store, feed, patience="50ms")
    assert lock(store, feed, patience="50ms") == 1


def test_heads_are_not_locked_if_the_outbox_has_rows(
    store: PostgresStore, database: Database, feed: StoredFeed
) -> None:
    with closing(database.connect()) as service:
        database.insert(service, "a", "{}")
        with store.write(plan=opening(feed)) as tx:
            assert tx.locked_heads is not None, "what is not committed does not wait"
        service.commit()
    with store.write(plan=opening(feed)) as tx:
        assert tx.locked_heads is None
        assert lock(store, feed, patience="50ms") == 1
        assert len(tx.outbox.take("a", 9, 999).rows) == 1


def test_row_committed_during_the_wait_for_heads_is_found_by_the_next_transaction(
    store: PostgresStore, database: Database, feed: StoredFeed
) -> None:
    waiting = threading.Event()

    def open_one() -> bool:
        waiting.set()
        with store.write(plan=opening(feed)) as tx:
            return tx.locked_heads is not None

    with ThreadPoolExecutor(1) as threads:
        with store.write() as tx:
            tx.log.find_heads(feed.partition_ids, lock=True)
            opened = threads.submit(open_one)
            assert waiting.wait(300)
            until_waiting(database)
            with closing(database.connect()) as service:
                database.insert(service, "a", "{}")
                service.commit()
        assert opened.result(300), "its look was before"
    with store.write(plan=opening(feed)) as tx:
        assert tx.locked_heads is None


def test_outbox_looked_at_by_another_during_the_wait_is_looked_at_again(
    store: PostgresStore, database: Database, feed: StoredFeed
) -> None:
    def open_one() -> bool:
        with store.write(plan=opening(feed)) as tx:
            return tx.locked_heads is not None

    with ThreadPoolExecutor(1) as threads:
        with store.write() as tx:
            tx.log.find_heads(feed.partition_ids, lock=True)
            opened = threads.submit(open_one)
            until_waiting(database)
            with closing(database.connect()) as service:
                database.insert(service, "a", "{}")
                service.commit()
            with store.read() as look:
                assert look.outbox.find_waiting(None) == ["a"]
        assert not opened.result(10), "its look counts for nothing after another, so that it has looked again"
