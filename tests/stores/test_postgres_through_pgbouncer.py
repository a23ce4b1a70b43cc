"""The store keeps the whole contract where every transaction may get another session."""

import pytest

from penstock.testing.pgbouncer import PgBouncer
from tests.stores.test_postgres import TestPostgres


class TestPostgresThroughPgBouncer(TestPostgres):
    @pytest.fixture
    def url(self, pgbouncer: PgBouncer, migrated_postgres_url: str) -> str:
        return pgbouncer.url(migrated_postgres_url)

    @pytest.fixture
    def empty_url(self, pgbouncer: PgBouncer, postgres_url: str) -> str:
        return pgbouncer.url(postgres_url)


del TestPostgres  # It has its own file.
