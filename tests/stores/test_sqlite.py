"""The store in SQLite keeps the contract."""

import pytest

from penstock.testing.store_contract import StoreContract


class TestSqlite(StoreContract):
    changes = ("INSERT OR REPLACE INTO penstock_event SELECT * FROM penstock_event",)

    @pytest.fixture
    def url(self, sqlite_url: str) -> str:
        return sqlite_url
