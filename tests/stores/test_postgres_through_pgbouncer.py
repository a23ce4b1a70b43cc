"""The store keeps its contract if each transaction may get another session of PostgreSQL."""

import pytest

from penstock.testing.pgbouncer import PgBouncer
from tests.store_contract import (
    GroupsTogether,
    LateCommits,
    LateRetries,
    ProducersTogether,
    SettingsTogether,
    StoreContract,
    SubscriptionsTogether,
)
from tests.store_contract.log import LogContract
from tests.stores.test_postgres import TestPostgres

CHANGES = TestPostgres.changes
del TestPostgres  # It has its own file.


class ThroughPgBouncer:
    """The databases of the cluster, by way of PgBouncer."""

    changes = CHANGES

    @pytest.fixture
    def url(self, pgbouncer: PgBouncer, migrated_postgres_url: str) -> str:
        return pgbouncer.url(migrated_postgres_url)

    @pytest.fixture
    def empty_url(self, pgbouncer: PgBouncer, postgres_url: str) -> str:
        return pgbouncer.url(postgres_url)


class TestSessions(
    ThroughPgBouncer,
    LogContract,
    LateCommits,
    LateRetries,
    SettingsTogether,
    ProducersTogether,
    GroupsTogether,
    SubscriptionsTogether,
):
    """The log, and concurrent transactions: they need what belongs to a session, such as locks and settings."""


@pytest.mark.exhaustive
class TestContract(ThroughPgBouncer, StoreContract):
    """All the rest of the contract."""
