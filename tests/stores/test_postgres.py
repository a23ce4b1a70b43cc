"""The store in PostgreSQL keeps the contract, and that of concurrent writers."""

from contextlib import closing

import psycopg
import pytest

from penstock.errors import DatabaseUnsuitable, OutcomeUnknown
from penstock.storage.log.events import CHUNK_BYTES, Block, Frame
from penstock.storage.postgres import POSTGRES
from penstock.storage.postgres import store as postgres
from penstock.storage.postgres.store import PostgresStore
from tests.failing import has_code
from tests.store_contract import (
    GroupsTogether,
    LateCommits,
    LateRetries,
    ProducersTogether,
    SettingsTogether,
    StoreContract,
    SubscriptionsTogether,
)
from tests.store_contract.database import FIRST_AT, append, created, row


class TestPostgres(
    StoreContract,
    LateCommits,
    LateRetries,
    SettingsTogether,
    ProducersTogether,
    GroupsTogether,
    SubscriptionsTogether,
):
    changes = (
        "TRUNCATE penstock_event",
        "TRUNCATE penstock_partition, penstock_event CASCADE",
        'UPDATE penstock_event SET "offset" = "offset" + 10',
        "UPDATE penstock_event SET partition_id = partition_id + 1000",
        """INSERT INTO penstock_event SELECT * FROM penstock_event WHERE true
           ON CONFLICT (partition_id, "offset") DO UPDATE SET data = excluded.data""",
    )

    @pytest.fixture
    def url(self, migrated_postgres_url: str) -> str:
        return migrated_postgres_url

    @pytest.fixture
    def empty_url(self, postgres_url: str) -> str:
        return postgres_url


def test_database_with_another_encoding_than_utf8_is_refused(postgres_url: str) -> None:
    other = postgres_url + "_latin"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = other.rpartition("/")[2]
        connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0".encode())
        try:
            with (
                closing(PostgresStore(other)) as store,
                pytest.raises(DatabaseUnsuitable, check=has_code("encoding-unsuitable")) as told,
            ):
                store.migrate()
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    assert told.value.detail == "the encoding of the database is LATIN1, Penstock needs UTF8"
    assert not told.value.retryable


@pytest.mark.parametrize("rows", [1, 100], ids=["by INSERT", "by COPY"])
def test_events_are_stored_as_published_whatever_encoding_a_client_has(migrated_postgres_url: str, rows: int) -> None:
    data = [f'{{"to":"Zoë, 東京 \\\\ {number}","quote":"it\'s"}}'.encode() for number in range(rows)]
    with closing(PostgresStore(f"{migrated_postgres_url}?client_encoding=latin1")) as store:
        feed = created(store)
        append(
            store,
            Block(feed.partition_ids[0], 0, FIRST_AT, [("Zoë", None, '{"city":"Zürich"}', each) for each in data]),
        )
    with closing(PostgresStore(migrated_postgres_url)) as store, store.read() as tx:
        lines = tx.log.read_lines(feed.partition_ids[0], 0, rows, Frame("", "\n", ""), None)
        columns = tx.log.read_columns(feed.partition_ids[0], 0, rows, "\n")

    assert lines.body.split(b"\n") == columns.data.split(b"\n") == data
    assert (columns.keys, columns.headers) == (
        b"\n".join(["Zoë".encode()] * rows),
        b"\n".join(['{"city":"Zürich"}'.encode()] * rows),
    )


def test_event_larger_than_a_chunk_is_read_alone(postgres_url: str) -> None:
    """No hub takes one, and SQLite does not keep it."""
    data = b"x" * (CHUNK_BYTES + 1)
    with closing(PostgresStore(postgres_url)) as store:
        store.migrate()
        [partition_id] = created(store).partition_ids
        for n in range(3):
            append(store, row(partition_id, n, data))

        with store.read() as tx:
            for start in range(3):
                lines = tx.log.read_lines(partition_id, start, 3, Frame("", "", ""), None)
                columns = tx.log.read_columns(partition_id, start, 3)
                assert (lines.stop, lines.scanned, lines.body) == (start + 1, 1, data)
                assert (columns.stop, columns.rows, columns.data) == (start + 1, 1, data)


def test_write_has_an_idle_timeout_of_20_seconds_that_ends_with_it(postgres_url: str) -> None:
    asked = b"SHOW idle_in_transaction_session_timeout"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(POSTGRES.statements["begin"].encode())
        assert connection.execute(asked).fetchone() == ("20s",)
        connection.execute("COMMIT")

        assert connection.execute(asked).fetchone() == ("0",)


def test_locks_of_an_idle_write_end_with_its_timeout(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PostgresStore(postgres_url)) as store:
        store.migrate()
        [partition_id] = created(store).partition_ids
        soon = POSTGRES.statements["begin"].replace("'20s'", "'1s'")

        def idle() -> None:
            with store.write() as tx:
                tx.log.find_heads([partition_id], lock=True)
                monkeypatch.undo()
                append(store, row(partition_id, 0, b"1"))

        monkeypatch.setattr(postgres, "_sql", {"begin": soon})
        with pytest.raises(OutcomeUnknown, match="idle-in-transaction timeout"):
            idle()

        append(store, row(partition_id, 1, b"2"))

        with store.read() as tx:
            assert tx.log.read_lines(partition_id, 0, 9, Frame("", " ", ""), None).body == b"1 2"
