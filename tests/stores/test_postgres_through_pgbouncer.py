"""The store keeps the whole contract where every transaction may get another session."""

import pytest

from tests.stores.test_postgres import TestPostgres


class TestPostgresThroughPgBouncer(TestPostgres):
    @pytest.fixture
    def url(self, pgbouncer_url: str) -> str:
        return pgbouncer_url


del TestPostgres  # It has its own file.
