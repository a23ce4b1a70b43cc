"""One suite that every store passes: subclass `StoreContract`, give it a fixture `url`, and pytest runs it.

    class TestSqlite(StoreContract):
        @pytest.fixture
        def url(self, tmp_path: Path) -> str:
            return f"sqlite:///{tmp_path}/events.db"

Where several transactions can write at once, `LateCommits`, `LateRetries`, `SettingsTogether`, `ProducersTogether`,
`GroupsTogether` and `SubscriptionsTogether` hold too.
"""

from tests.store_contract.batches import BatchesContract
from tests.store_contract.database import Database, database_at
from tests.store_contract.defence import DefenceContract
from tests.store_contract.feeds import FeedsContract
from tests.store_contract.groups import GroupsContract, GroupsTogether
from tests.store_contract.log import LogContract
from tests.store_contract.migrations import MigrationContract
from tests.store_contract.outbox import LateCommits, OutboxContract
from tests.store_contract.parked import ParkedContract
from tests.store_contract.produced import GoneContract, ProducedContract, ProducedDefenceContract
from tests.store_contract.producers import ProducersContract
from tests.store_contract.producers_together import ProducersTogether
from tests.store_contract.ranges import RangeContract
from tests.store_contract.rejected import LateRetries, RejectedContract
from tests.store_contract.removal import RemovalContract
from tests.store_contract.schemas import SchemasContract
from tests.store_contract.settings import SettingsContract, SettingsTogether
from tests.store_contract.subscriptions import StreamsContract, SubscriptionsContract
from tests.store_contract.subscriptions_together import SubscriptionsTogether
from tests.store_contract.times import TimesContract
from tests.store_contract.transactions import TransactionsContract

__all__ = [
    "Database",
    "GroupsTogether",
    "LateCommits",
    "LateRetries",
    "ProducersTogether",
    "SettingsTogether",
    "StoreContract",
    "SubscriptionsTogether",
    "database_at",
]


class StoreContract(
    TransactionsContract,
    FeedsContract,
    SchemasContract,
    LogContract,
    RangeContract,
    TimesContract,
    DefenceContract,
    RemovalContract,
    OutboxContract,
    RejectedContract,
    GroupsContract,
    SettingsContract,
    ProducersContract,
    ProducedContract,
    GoneContract,
    BatchesContract,
    SubscriptionsContract,
    StreamsContract,
    ParkedContract,
    ProducedDefenceContract,
    MigrationContract,
):
    """All that `penstock.storage.store` promises."""
