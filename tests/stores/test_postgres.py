"""The store in PostgreSQL keeps the contract, and what follows from several transactions that write at once."""

from contextlib import closing

import psycopg
import pytest

from penstock.errors import EncodingUnsuitable
from penstock.storage.postgres.store import PostgresStore
from penstock.testing.store_contract import LateCommits, LateRetries, StoreContract


class TestPostgres(StoreContract, LateCommits, LateRetries):
    changes = ("TRUNCATE penstock_event", "TRUNCATE penstock_partition, penstock_event CASCADE")

    @pytest.fixture
    def url(self, postgres_url: str) -> str:
        return postgres_url


def test_a_database_that_cannot_hold_every_character_is_refused(postgres_url: str) -> None:
    other = postgres_url + "_latin"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = other.rpartition("/")[2]
        connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0".encode())
        try:
            with closing(PostgresStore(other)) as store, pytest.raises(EncodingUnsuitable) as told:
                store.migrate()
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    assert told.value.detail == "the database's encoding is LATIN1, Penstock needs UTF8"
    assert not told.value.retryable
