"""The port between the hub and the databases: `Store`, and its repositories in one transaction, `Tx`.

Invariants of every database:
    Offsets of a partition are dense and in commit order: a reader that has seen offset k finds all offsets below it.
    A write is on disk before `Store.write` returns.
    The number of a partition in the store is never used again.
    Events are never changed. They are removed below the floor of their partition, or one by one, with a record of the
    offset.

All times are microseconds since 1970, UTC.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from penstock.storage.admin import AccessRepository, SettingRepository
from penstock.storage.batches import BatchRepository
from penstock.storage.cold.manifest import ColdRepository
from penstock.storage.groups import GroupRepository
from penstock.storage.log.erasure import ErasureRepository
from penstock.storage.log.events import LogRepository, PartitionHead
from penstock.storage.log.outbox import OutboxRepository
from penstock.storage.log.removal import RemovalRepository
from penstock.storage.producers import ProducerRepository
from penstock.storage.registry import RegistryRepository
from penstock.storage.statements import SqlRunner
from penstock.storage.subscriptions import SubscriptionRepository

if TYPE_CHECKING:
    from penstock.storage.cold.tier import ColdTier

Chunk = TypeVar("Chunk")

BACKLOG_MAX: Final = 10_000
"""The doctor complains about an outbox with at least this many rows: no hub moves them."""


class AppendPlan(NamedTuple):
    """Partitions that a transaction will append to, if no row waits in the outbox of their event types."""

    event_types: Sequence[str]
    partition_ids: Sequence[int]
    """Sorted."""


class Tx(ABC):
    """Repositories of a store in one transaction, or on a connection without one.

    A repository is built when it is first used. Those that a database implements in its own way are properties that it
    overrides.
    """

    locked_heads: dict[int, PartitionHead] | None = None
    """Heads that `Store.write` has locked for its *plan*; None if rows wait in an outbox, or without a plan."""

    @property
    @abstractmethod
    def _sql(self) -> SqlRunner:
        """Runs statements for the repositories that databases share."""

    @property
    @abstractmethod
    def log(self) -> LogRepository:
        """Events of partitions."""

    @property
    @abstractmethod
    def outbox(self) -> OutboxRepository:
        """Rows that services have committed for the hub to move into the log."""

    @cached_property
    def removal(self) -> RemovalRepository:
        """Removal of events."""
        return RemovalRepository(self._sql)

    @cached_property
    def erasures(self) -> ErasureRepository:
        """Requests to erase the events of a key."""
        return ErasureRepository(self._sql)

    @cached_property
    def cold(self) -> ColdRepository:
        """The manifest of the cold tier."""
        return ColdRepository(self._sql)

    @cached_property
    def registry(self) -> RegistryRepository:
        """Event types, their partitions and their schemas."""
        return RegistryRepository(self._sql)

    @cached_property
    def producers(self) -> ProducerRepository:
        """Idempotent producers."""
        return ProducerRepository(self._sql)

    @cached_property
    def batches(self) -> BatchRepository:
        """Uploads, and the ledger of batches."""
        return BatchRepository(self._sql)

    @cached_property
    def groups(self) -> GroupRepository:
        """Consumer groups and their positions."""
        return GroupRepository(self._sql)

    @cached_property
    def subscriptions(self) -> SubscriptionRepository:
        """Subscriptions, their sessions, slots and parked keys."""
        return SubscriptionRepository(self._sql)

    @cached_property
    def settings(self) -> SettingRepository:
        """Settings that operators have made."""
        return SettingRepository(self._sql)

    @cached_property
    def access(self) -> AccessRepository:
        """Tokens of callers, and the rights to event types and subscriptions."""
        return AccessRepository(self._sql)

    def now(self) -> int:
        """Return the time of the database's clock, which all hubs share."""
        [(now,)] = self._sql.run("clock").fetchall()
        return int(now)


class Watcher(Protocol):
    """Detects cheaply whether anything may have been committed."""

    def has_changed(self) -> bool:
        """Return whether anything may have been committed since the last call; True if that is not known."""

    def close(self) -> None:
        """Release the connection."""


class ConnectionCounts(NamedTuple):
    """The connections of one process to the database."""

    open: int
    idle: int
    most: int | None
    """The largest number allowed; None: there is no limit."""
    waiting: int
    """Number of threads that wait for a connection."""


class StoreSpace(NamedTuple):
    """The space that a database takes, in bytes."""

    used: int
    free: int | None
    """Free space of its disk; None: it cannot be seen from here."""
    size: int | None
    """Size of its disk; None: it cannot be seen from here."""


class DoctorFinding(NamedTuple):
    """Result of one check of `penstock doctor`."""

    name: str
    ok: bool
    says: str


class EventTx(Protocol):
    """The part of a transaction by which a chunk of events is read, in a database or on a replica of it."""

    @property
    def log(self) -> LogRepository:
        """Events of partitions."""

    @property
    def removal(self) -> RemovalRepository:
        """Removal of events: the offsets of those that are gone."""


class Replicas(Protocol):
    """Standbys of the database, which serve events that they have replayed. Safe to use from many threads."""

    def start(self) -> None:
        """Check that they are standbys of this database, and begin to use them; harmless when repeated.

        Raises:
            DatabaseUnsuitable: one is not a standby of this database, or its role may not read the events.
            DatabaseUnavailable: the database itself cannot be reached.
        """

    def read(self, partition_id: int, start: int, stop: int, read: Callable[[EventTx], Chunk | None]) -> Chunk | None:
        """Call *read* on a replica that has the whole range, which exists in the database; return its result.

        Return None if no replica has it, or can be asked now, or *read* finds less than it needs: the caller asks
        the database itself then. A replica has no event that was removed one by one when this process last saw the
        heads of the partition.
        """

    def close(self) -> None:
        """Use them no more; harmless when repeated."""

    def measure(self) -> "Sequence[ReplicaMeasurement]":
        """Return how each replica does; nothing is asked of it."""

    @property
    def missed(self) -> int:
        """Number of calls of `read` that have returned None."""


class ReplicaMeasurement(NamedTuple):
    """How one replica does."""

    url: str
    """URL without a password."""
    is_used: bool
    lag_seconds: float | None
    """Age of the last moment of the database whose commits it has all replayed; None: that is not known."""
    reads: int
    """Number of chunks that it has served."""


class Store(Protocol):
    """Database. Every method may raise Unavailable: it has done nothing then, and the call can be repeated."""

    url: str
    """URL without a password."""
    cold: "ColdTier | None"
    """The cold tier, which has the events that left the database; None: it has none, or none was named."""
    replicas: Replicas | None
    """Standbys that serve events; None: none were named."""
    poll_interval: float
    """Interval of polls for changes while a reader waits."""
    calm_poll_interval: float
    """Interval of such polls once nothing has changed for a while."""

    batch_events_max: int
    """Events of an uploaded batch that one transaction appends, so that it does not keep others waiting."""

    def write(self, *, patient: bool = True, plan: AppendPlan | None = None) -> AbstractContextManager[Tx]:
        """Open a write transaction; leaving the block commits durably, an exception rolls back.

        With a *plan*, `Tx.locked_heads` are the locked heads of its partitions, unless rows wait in an outbox of its
        event types, which has to be locked first. This saves round trips to the database.

        Raises:
            WrongTransaction: not *patient*, and a long transaction of this process locks the database.
            OutcomeUnknown: the connection broke while committing.
        """

    def read(self, *, timeout: float | None = None) -> AbstractContextManager[Tx]:
        """Lend a connection without a transaction: each call reads the latest commit.

        With a *timeout*, the database ends statements that take longer than that many seconds.

        Raises:
            Unavailable: a statement took longer than *timeout*.
        """

    def count_connections(self) -> "ConnectionCounts":
        """Return how many connections the pool has; nothing is asked of the database."""

    def measure_space(self, *, timeout: float) -> StoreSpace:
        """Return how much space the database takes; a statement takes up to *timeout* seconds."""

    def forget_deleted(self) -> bool:
        """Remove earlier versions of deleted rows that the database still has beside its file.

        Return False if readers are in the way. SQLite moves its write-ahead log into the file, and empties it.
        PostgreSQL does nothing: standbys and backups need its log.
        """

    def watch(self) -> Watcher:
        """Return a watcher for one thread."""

    def migrate(self) -> Sequence[str]:
        """Migrate the tables under a lock, and return the names of the migrations that ran.

        Raises:
            DatabaseUnsuitable: a newer Penstock has migrated the database.
            DatabaseUnsuitable: the database cannot store every character that an event may have.
        """

    def check(self, *, restoring: bool = False) -> None:
        """Raise DatabaseUnsuitable unless the tables are those of this version.

        A backup of `penstock backup` is unsuitable until its feeds have new epochs, except while *restoring*.
        """

    def doctor(self) -> Sequence[DoctorFinding]:
        """Check reachability, schema, durability, long transactions and the outbox."""

    def close(self) -> None:
        """Release all connections."""


def check_outbox(waiting: int) -> DoctorFinding:
    """Return the doctor's finding about the number of rows that wait in the outbox."""
    return DoctorFinding("outbox", waiting < BACKLOG_MAX, f"{waiting} rows wait to be moved")


def check_rejected(rejected: int) -> DoctorFinding:
    """Return the doctor's finding about the number of rejected rows."""
    return DoctorFinding("rejected", rejected == 0, f"{rejected} could not be published: see `penstock rejected list`")
