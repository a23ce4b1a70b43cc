"""The seam between the hub and the databases: Store, and what can be done in one transaction.

Invariants, whatever the database:
    Offsets of a partition are dense and given in commit order: whoever has seen offset k finds all below it.
    What was committed is on disk before `write` returns.
    A partition's number in the store is never used again.
    Events are never changed, and never removed but below their partition's floor.

All times are microseconds since 1970, UTC.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from penstock.core.events.event import Row
from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.storage.groups import Groups
from penstock.storage.opening import Opening
from penstock.storage.outbox import Outbox, Rejected
from penstock.storage.parked import ParkedKeys
from penstock.storage.producers import Producers
from penstock.storage.staging import Staging
from penstock.storage.subscriptions import Subscriptions

CHUNK_BYTES: Final = 2 << 20
"""About the most that one read brings into memory, but for a single larger event."""

NONE: Final = b"\x01"
"""Stands for NULL in a joined column; no key, kind or header can hold it."""


DELETION: Final = "\x02"
"""The kind of a row that is never shown: it says that the earlier events of its key are to be forgotten."""

ROW_COLUMNS: Final = ("key", "kind", "headers", "data")
"""Where the parts of a `Row` are kept."""


class Head(NamedTuple):
    """What a partition has to offer, and where it goes on."""

    revision: int
    """Of its event type; a publisher's picture is out of date when it differs."""
    floor: int
    """The first offset that retention has left."""
    next_offset: int
    received_at: int
    """Of the last event; 0 when there is none. Never goes back."""


class Block(NamedTuple):
    """Events that a transaction appends to one partition, one after the other."""

    partition_id: int
    start: int
    """The offset of the first."""
    received_at: int
    rows: list[Row]


class Columns(NamedTuple):
    """A range of events by column; keys, kinds and headers are joined by LF, None where all are NULL."""

    stop: int
    """The offset just after the range: earlier than asked for where more would not have fitted into a chunk."""
    rows: int
    """Fewer than the range has, maybe none, where some of it is gone."""
    data: bytes
    """One event after the other, with nothing between them."""
    sizes: bytes
    """Of each event's data, in bytes: 32-bit integers in the machine's order."""
    keys: bytes | None
    kinds: bytes | None
    headers: bytes | None
    received: "Runs"


class Runs(NamedTuple):
    """The times at which a range was received, told once for neighbours that were appended together; joined by LF."""

    ends: bytes
    """Of each run, counted from the start of the range: how many events there are up to its end."""
    times: bytes


class KindFilter(msgspec.Struct, frozen=True):
    """Keeps events by kind, compared in lower case."""

    kinds: frozenset[str]
    skip: bool
    """Keep all but these."""
    default: str
    """The kind of an event that says none: its event type's name."""


class Position(NamedTuple):
    """How far a consumer group has come in one tranche of one source."""

    tranche: int
    epoch: int
    offset: int


class Setting(NamedTuple):
    """One thing that an operator has told the hub."""

    kind: str
    name: str
    value: str


class Frame(NamedTuple):
    """What stands around the joined events of a chunk, and between two of them."""

    prefix: str
    separator: str
    suffix: str


class Lines(NamedTuple):
    """A range of events as one value."""

    stop: int
    """The offset just after the range: earlier than asked for where more would not have fitted into a chunk."""
    scanned: int
    kept: int
    body: bytes
    """Empty when none was kept."""


class Events(Protocol):
    """The log itself."""

    def heads(self, partition_ids: Sequence[int]) -> dict[int, Head]:
        """Return the head of each partition that still belongs to an event type."""

    def lock_heads(self, partition_ids: Sequence[int]) -> dict[int, Head]:
        """The same, locked until the transaction ends; *partition_ids* are sorted, so that nobody waits in a circle."""

    def append(self, blocks: Iterable[Block]) -> None:
        """Add events, whose offsets go on densely from the locked heads, in few statements."""

    def lines(self, partition_id: int, start: int, stop: int, frame: Frame, kinds: KindFilter | None) -> Lines:
        """Return a range's data as one value, joined in the database, only those that *kinds* keeps.

        The range is cut short where it would have more than about `CHUNK_BYTES`, but never to nothing.
        """

    def columns(self, partition_id: int, start: int, stop: int) -> Columns:
        """Return a range by column, cut short likewise."""

    def since(self, ranges: Mapping[int, tuple[int, int]], at: int) -> dict[int, int]:
        """Return of each partition's range, start and stop, the offset of its first event received at *at* or later.

        It is the range's stop where there is none. Few events are looked at, however many the ranges have.
        """

    def received(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Return, by partition, when the first event at an offset or after it was received; left out: there is none."""


class Feeds(Protocol):
    """Event types and their partitions."""

    def find(self, name: str) -> StoredFeed | None:
        """Return the feed of that name, or None."""

    def list(self) -> Sequence[StoredFeed]:
        """Return all, sorted by name."""

    def insert(self, event_type: EventType, at: int) -> None:
        """Create an event type with its partitions and its schema; its epoch is one above the last of that name.

        Raises:
            EventTypeExists: the name is taken.
        """

    def lock(self, name: str) -> StoredFeed | None:
        """Return the feed of that name; until the transaction ends, nobody else changes it or appends to it."""

    def update(self, feed: StoredFeed, event_type: EventType, at: int) -> None:
        """Let a locked feed be that of *event_type*, with as many partitions: those that are new begin empty."""

    def delete(self, name: str) -> bool:
        """Drop an event type: its partitions belong to nobody from here on, `purge` removes what they held."""

    def raise_epochs(self) -> int:
        """Give every feed an epoch that no cursor has seen; return how many feeds there are.

        Subscriptions stay where they are: their positions are as old as the feeds.
        """

    def purge(self, rows: int) -> int:
        """Remove up to *rows* events of dropped partitions; return how many, 0 when nothing is left to do."""


class Schemas(Protocol):
    """The versions of event types' schemas, each as it is shown."""

    def add(self, feed: StoredFeed, schema: dict[str, Any]) -> None:
        """Keep *schema*, the next version, which says so itself."""

    def find(self, feed: StoredFeed, version: str) -> dict[str, Any] | None:
        """Return that version, or None."""

    def list(self, feed: StoredFeed, *, limit: int, offset: int) -> Sequence[dict[str, Any]]:
        """Return up to *limit* versions, newest first, without the newest *offset*."""


class Positions(Protocol):
    """How far every consumer group has come."""

    def find(self, group: str, source: str, slice: str) -> Mapping[int, Position]:
        """Return the stored positions by tranche."""

    def store(self, group: str, source: str, slice: str, positions: Sequence[Position], *, kind: str, at: int) -> str:
        """Record positions, whatever stood there; of several slices by their texts, or writers wait in a circle.

        Return the kind of the group, which is *kind* where it is new.
        """


class Settings(Protocol):
    """What operators have told the hub; each setting is known by its kind and its name."""

    def all(self) -> Sequence[Setting]:
        """Return all, sorted by kind and name."""

    def put(self, kind: str, name: str, value: str) -> None:
        """Record a setting, whatever stood there; of several by kind and name, or writers wait in a circle."""

    def remove(self, kind: str, name: str) -> bool:
        """Forget a setting; tell whether it was there. In the order of `put`."""


class Tx(Protocol):
    """One transaction, or one look without any: the store's parts."""

    @property
    def opened(self) -> dict[int, Head] | None:
        """The locked heads that it was opened for; None: rows wait in an outbox, or nothing was said of it."""

    @property
    def events(self) -> Events:
        """The log itself."""

    @property
    def feeds(self) -> Feeds:
        """Event types and their partitions."""

    @property
    def schemas(self) -> Schemas:
        """The versions of event types' schemas."""

    @property
    def outbox(self) -> Outbox:
        """What services have committed for the hub to move into the log."""

    @property
    def rejected(self) -> Rejected:
        """Outbox rows that could not be published."""

    @property
    def positions(self) -> Positions:
        """How far every consumer group has come."""

    @property
    def groups(self) -> Groups:
        """Consumer groups as a whole."""

    @property
    def settings(self) -> Settings:
        """What operators have told the hub."""

    @property
    def producers(self) -> Producers:
        """Who publishes idempotently."""

    @property
    def staging(self) -> Staging:
        """What is handed in before it is published."""

    @property
    def subscriptions(self) -> Subscriptions:
        """Subscriptions, and their streams."""

    @property
    def parked(self) -> ParkedKeys:
        """Keys whose events wait, since one could not be processed."""


class Finding(NamedTuple):
    """One thing that `penstock doctor` looked at."""

    name: str
    ok: bool
    says: str


class Watcher(Protocol):
    """Tells cheaply whether there may be something new."""

    def changed(self) -> bool:
        """Tell whether anyone may have committed since the last call; True when that cannot be told cheaply."""

    def close(self) -> None:
        """Let go of what it holds."""


class Store(Protocol):
    """A database. Every method may raise Unavailable: nothing was done then, and the call can be repeated."""

    url: str
    """Without a password."""
    poll_interval: float
    """How often it is worth asking whether something has changed, while somebody waits for it."""
    calm_poll_interval: float
    """The same once nothing has happened for a while."""

    batch_events_max: int
    """How many events of a staged batch go into the log in one transaction: others do not wait for longer."""

    def write(self, *, patient: bool = True, opening: Opening | None = None) -> AbstractContextManager[Tx]:
        """Open a write transaction; leaving it commits durably, an exception undoes all of it.

        Where it is known what it is *opening* for, `Tx.opened` has the heads, locked; unless rows wait in an outbox of
        these event types: that has to be locked before. It is less to and fro with the database.

        Raises:
            InsideTransaction: not *patient*, and this process itself holds the database in a transaction that lasts.
            OutcomeUnknown: the connection broke while committing.
        """

    def read(self) -> AbstractContextManager[Tx]:
        """Lend a connection in no transaction: each call sees the latest commit."""

    def watch(self) -> Watcher:
        """Return a watcher for one thread."""

    def migrate(self) -> Sequence[str]:
        """Bring the tables up to date under a lock; return the names of the migrations that were run.

        Raises:
            SchemaTooNew: a newer Penstock has been here.
            EncodingUnsuitable: the database cannot hold every character that an event may have.
        """

    def check(self) -> None:
        """Raise SchemaMissing or SchemaTooNew unless the tables are those of this version."""

    def doctor(self) -> Sequence[Finding]:
        """Look at what can be wrong: reachability, schema, durability, long transactions, the outbox."""

    def close(self) -> None:
        """Let go of every connection."""
