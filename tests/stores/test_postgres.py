"""The store in PostgreSQL keeps the contract, and what follows from several transactions that write at once."""

import pytest

from penstock.testing.store_contract import LateCommits, StoreContract


class TestPostgres(StoreContract, LateCommits):
    changes = ("TRUNCATE penstock_event", "TRUNCATE penstock_partition, penstock_event CASCADE")

    @pytest.fixture
    def url(self, postgres_url: str) -> str:
        return postgres_url
