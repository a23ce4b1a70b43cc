"""The hub: what can be done with events, one line a verb."""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Unpack

from penstock.core.events.event import NewEvent
from penstock.core.fields import Definition
from penstock.core.producers import MODULUS, Stamp, digests_of
from penstock.core.registry.definition import PENSTOCK, Limits
from penstock.core.registry.event_type import Feed
from penstock.errors import (
    DatabaseUnavailable,
    Forbidden,
    MalformedBatch,
    NotOffered,
    OutboxBacklog,
    OutcomeUnknown,
    TooManyEvents,
    Unavailable,
)
from penstock.hub.admin.settings import Caller, Operation, Permissions, Settings
from penstock.hub.admin.sweeping import Sweeper
from penstock.hub.background import Clock, system_clock
from penstock.hub.batches.direct import Direct
from penstock.hub.batches.staging import Staging
from penstock.hub.committer import GROUP_EVENTS_MAX, Committer
from penstock.hub.groups import Groups, Positions
from penstock.hub.log.publish import Handed, How, Unfit, ready, refusal
from penstock.hub.log.read import ColumnChunk, LineChunk, Reader, Reading, Track, Wanted
from penstock.hub.log.request import Published, Request, Stamped, Who, handed_bytes
from penstock.hub.producers.producers import Expiry, Producers
from penstock.hub.registry import Comparison, Registry
from penstock.hub.subscriptions.parking import Parking
from penstock.hub.subscriptions.streams import Streams
from penstock.hub.subscriptions.subscriptions import Subscriptions
from penstock.hub.watch import Watch
from penstock.storage.store import Finding, Frame, Head, KindFilter, Store

SETTLE_SECONDS_MAX = 6.0


class Hub:
    """An event hub over one store. Safe to use from many threads; any number of hubs may share a database.

    What can be asked of it works from the first call. `start` adds what goes on by itself: those who wait hear of what
    others commit, the outbox is moved when nobody reads, and dropped event types are cleared away. `stop` appends what
    is queued, wakes all who wait and closes the store.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock = system_clock,
        group_events_max: int = GROUP_EVENTS_MAX,
        limits: Limits = PENSTOCK,
        expiry: Expiry = Expiry(),  # noqa: B008 - it is immutable
        sequence_modulus: int = MODULUS,
    ) -> None:
        """Make a hub; *expiry* and *sequence_modulus*, which numbers are counted by, are of its idempotent producers.

        Raises:
            InvalidSetting: producers would expire too soon.
        """
        self.store = store
        self.limits = limits
        self._clock = clock
        self._registry = Registry(store, clock, limits)
        self.groups = Groups(store, clock)
        self.positions = Positions(store, clock)
        self._sweeper = Sweeper(store, clock, expiry.check())
        self.producers = Producers(store, clock, expiry, sequence_modulus)
        self.settings = Settings(store, self._wake_all)
        self._reader = Reader(store)
        self.subscriptions = Subscriptions(store, clock, limits)
        self.streams = Streams(store, clock, self._reader, limits)
        self.parking = Parking(store, clock)
        self._watch = Watch(store, self.move, self.settings.look, self.streams.live.look)
        self.permissions = Permissions(self.settings)
        self._committer = Committer(
            store,
            clock,
            self._registry.load,
            self._watch.appended,
            group_events_max=group_events_max,
            modulus=sequence_modulus,
        )
        self.staging = Staging(store, clock, self._registry.load, self._committer.submit)
        self.direct = Direct(store, clock)

    def start(self) -> None:
        """Check the tables and start the threads that watch and sweep; harmless when repeated.

        Raises:
            SchemaMissing, SchemaTooNew: the tables are not those of this version.
            DatabaseUnavailable: the database cannot be reached.
        """
        self.store.check()
        self.settings.start()
        self._watch.start()
        self._sweeper.start()

    def stop(self, timeout_s: float | None = None) -> None:
        """Append what is queued, wake everybody, let go of the database: see `Committer.stop`.

        Where the database holds up a thread for longer than *timeout_s*, that thread and its connection are left to the
        end of the process.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        stops = (self._watch.stop, self._committer.stop, self._sweeper.stop, self.streams.stop)
        ended = [stop(None if deadline is None else max(0.0, deadline - time.monotonic())) for stop in stops]
        if all(ended):
            self.store.close()

    def drain(self) -> None:
        """Let nobody wait any longer: every wait ends with what it has."""
        self._watch.drain()

    # Event types

    def create_event_type(self, definition: Any) -> None:
        """Create the event type that *definition* describes: see `Registry.create`.

        Raises:
            NotOffered, ChangesSwitchedOff: a feature rules it out.
        """
        if self.settings.is_on("disable_event_type_creation"):
            raise NotOffered(feature="disable_event_type_creation")
        self._registry.create(definition, check=self.settings.check_changes)

    def replace_event_type(self, name: str, definition: Any, *, allow_reordering: bool = False) -> None:
        """Let an event type be what *definition* says: see `Registry.replace`, and `Settings.check_changes`."""
        self._prepare_change(name)
        self._registry.replace(name, definition, admin=True, allow_reordering=allow_reordering)

    def grow_event_type(self, name: str, count: Any) -> None:
        """Give an event type partitions until it has *count*: see `Registry.grow`, and `Settings.check_changes`."""
        self._prepare_change(name)
        self._registry.grow(name, count)

    def check_event_type(self, name: str, definition: Any, *, allow_reordering: bool = False) -> None:
        """Return if an event type could be what *definition* says, created if there is none: see `Registry.check`.

        Raises:
            NotOffered, ChangesSwitchedOff: a feature rules it out.
        """
        exists = self._registry.check(name, definition, admin=True, allow_reordering=allow_reordering)
        if not exists and self.settings.is_on("disable_event_type_creation"):
            raise NotOffered(feature="disable_event_type_creation")
        self.settings.check_changes()

    def schemas(self, name: str, *, limit: int, offset: int) -> Sequence[Definition]:
        """Return versions of an event type's schema, newest first: see `Registry.schemas`."""
        return self._registry.schemas(name, limit=limit, offset=offset)

    def schema(self, name: str, version: str) -> Definition:
        """Return one version of an event type's schema: see `Registry.schema`."""
        return self._registry.schema(name, version)

    def schema_like(self, name: str, given: Any) -> Definition:
        """Return the version of an event type's schema that says the same: see `Registry.schema_like`."""
        return self._registry.schema_like(name, given)

    def add_schema(self, name: str, given: Any) -> None:
        """Give an event type another schema: see `Registry.add_schema`, and `Settings.check_changes`."""
        self._prepare_change(name)
        self._registry.add_schema(name, given)

    def _prepare_change(self, name: str) -> None:
        """Move what services have committed, so that it is held to the event type that it was checked against.

        Raises:
            ChangesSwitchedOff: a feature rules out changes.
            OutboxBacklog, DatabaseUnavailable: the outbox could not be moved now: see `settle`.
        """
        self.settings.check_changes()
        self.settle(name)

    def compare_schema(self, name: str, version: str, given: Any) -> Comparison:
        """Tell what giving an event type another schema would be: see `Registry.compare`."""
        return self._registry.compare(name, version, given)

    def is_light(self, name: str, size: int) -> bool:
        """Tell whether preparing a publish of *size* bytes to *name* is so little work that an event loop may do it.

        It is not where the database must be asked first, or a schema be compiled.
        """
        return self._registry.knows(name) and self._registry.recall(name).event_type.is_light(size)

    def knows(self, name: str) -> bool:
        """Tell whether `recall` answers at once."""
        return self._registry.knows(name)

    def recall(self, name: str) -> Feed:
        """Return the feed of that name as it was when last seen: see `Registry.recall`."""
        return self._registry.recall(name)

    def event_types(self) -> Sequence[Feed]:
        """Return all event types with their feeds, sorted by name."""
        return self._registry.list()

    def event_type(self, name: str) -> Feed:
        """Return the event type of that name with its feed: see `Registry.load`."""
        return self._registry.load(name)

    def delete_event_type(self, name: str) -> None:
        """Drop the event type and all its events: see `Registry.delete`.

        Raises:
            Forbidden, ChangesSwitchedOff: a feature rules it out.
        """
        if self.settings.is_on("disable_event_type_deletion"):
            raise Forbidden("event types cannot be deleted here: the feature disable_event_type_deletion is on")
        self.settings.check_changes()
        self._registry.delete(name, with_subscriptions=self.settings.is_on("delete_event_type_with_subscriptions"))
        self._sweeper.sweep()

    # Publishing

    def submit(
        self,
        name: str,
        events: Sequence[NewEvent],
        lines: Sequence[int] | None = None,
        *,
        looks: bool = True,
        **how: Unpack[How],
    ) -> "Future[Published | None]":
        """Publish *events*, all or none, in one transaction; the future is told once they are on disk.

        *lines* are the numbers by which errors call them, by default counted from 1. Where the event type as it is
        remembered refuses them, the database is asked whether it is still so; unless *looks* is False, when the refusal
        may be out of date, and does not tell what is wrong with an event that the schema does not allow.

        Raises:
            EventTypeNotFound, InvalidEvent, EventTooLarge, PartitionRefused, UndeletableEvents: nothing was queued.
            PublishingRestricted: a plain publish could store an event twice, which the event type rules out.
            HubStopped: the hub is shutting down.
        """
        return self._committer.submit(self._request(name, Handed(events, lines, **how), looks=looks))

    def produce(
        self,
        who: Who,
        stamp: Stamp,
        events: Sequence[NewEvent],
        lines: Sequence[int] | None = None,
        *,
        looks: bool = True,
        trims: bool = False,
        deadline: float | None = None,
        **how: Unpack[How],
    ) -> "Future[Published | None]":
        """Publish *events* as `submit` does, but each at most once, by the numbers that *stamp* gives them.

        Where it *trims*, what follows a beginning that is stored is appended. What has not been begun by *deadline*, on
        the monotonic clock, is not begun.

        Raises:
            MalformedBatch, MalformedEvent, EventTypeNotFound, PartitionNotFound, TooManyEvents: nothing was queued.
            ProducerUnsafe: the future is told that the numbers do not fit what is stored.
            InvalidEvent, EventTooLarge, PartitionRefused: the future is told that the events are new, and not valid.
        """
        if not events:
            raise MalformedBatch("there are no events to give numbers to", reason="it has no events")
        if 2 * len(events) >= self.producers.modulus:
            raise TooManyEvents(limit=(self.producers.modulus - 1) // 2)
        handed = Handed(events, lines, **how)._replace(partition=who.partition)
        stamped = Stamped(who, stamp, digests_of(map(handed_bytes, events)), trims, deadline)
        return self._committer.submit(self._request(who.event_type, handed, stamped, looks=looks))

    def publish(self, name: str, events: Sequence[NewEvent]) -> Published:
        """Publish *events* and wait until they are on disk: see `submit`.

        Raises:
            InsideTransaction: this process itself holds the database, so this could only wait for itself.
        """
        published = self._committer.submit(self._request(name, Handed(events), direct=True)).result()
        assert published is not None
        return published

    def waits_in_outbox(self, name: str) -> bool:
        """Tell whether services have committed events to the outbox of *name* that are not in the log yet.

        To be asked before a look at the log: what another hub moves between the two is in the log then.
        """
        return bool(self.waiting([name]))

    def waiting(self, names: Sequence[str]) -> Sequence[str]:
        """Return those event types for which `waits_in_outbox`; one query answers for all."""
        with self.store.read() as tx:
            return tx.outbox.waiting(names)

    def move(self, name: str) -> "Future[Published | None]":
        """Have what waits in the outbox of *name* moved into the log; the future is told when it is.

        It fails with OutboxBacklog where there is more than can be moved in the time that a read may take.
        """
        return self._committer.submit(Request(name))

    def settle(self, name: str) -> bool:
        """Have the outbox of *name* moved and wait for it; tell whether there was anything to move.

        Raises:
            OutboxBacklog, DatabaseUnavailable: it could not be moved now.
        """
        if not self.waits_in_outbox(name):
            return False
        try:
            self.move(name).result(timeout=SETTLE_SECONDS_MAX)
        except (TimeoutError, OutcomeUnknown) as error:
            raise not_settled(name, error) from error
        return True

    # Reading

    def open(
        self, name: str, n: int | None, wanted: Sequence[Wanted], page_size: int, kinds: KindFilter | None = None
    ) -> Reading:
        """Begin a page: see `Reader.open`. One that would come to the head finds what was committed before it began.

        Raises:
            OutboxBacklog, DatabaseUnavailable: the outbox could not be moved now: see `settle`.
        """
        waits = self.waits_in_outbox(name)
        reading = self.look(name, n, wanted, page_size, kinds)
        if waits and reading.reaches_head:
            self.settle(name)
            reading = self.look(name, n, wanted, page_size, kinds)
        return reading

    def look(
        self, name: str, n: int | None, wanted: Sequence[Wanted], page_size: int, kinds: KindFilter | None = None
    ) -> Reading:
        """Begin a page as the log is, whatever waits in the outbox: see `Reader.open`."""
        return self._reader.open(name, n, wanted, page_size, kinds)

    def next_lines(self, reading: Reading, track: Track, frame: Frame) -> LineChunk | None:
        """Read on as lines: see `Reader.next_lines`."""
        return self._reader.next_lines(reading, track, frame)

    def next_columns(self, reading: Reading, track: Track) -> ColumnChunk | None:
        """Read on by column: see `Reader.next_columns`."""
        return self._reader.next_columns(reading, track)

    def heads(self, name: str) -> tuple[Feed, dict[int, Head]]:
        """Return where every partition begins and ends, what waits in the outbox included: see `Reader.heads`."""
        self.settle(name)
        return self._reader.heads(name)

    def since(self, name: str, at: int) -> tuple[Feed, list[int]]:
        """Return where every partition has what was received at a time or later: see `Reader.since`."""
        self.settle(name)
        return self._reader.since(name, at)

    def watch(self) -> Watch:
        """Return who wakes those that wait for events."""
        return self._watch

    # Operations

    def check(self, caller: Caller, operation: Operation, event_type: str | None = None) -> None:
        """Return if *caller* may: see `Permissions.check`, the one place where that is decided."""
        self.permissions.check(caller, operation, event_type)

    def restored(self) -> int:
        """Tell that a backup has been put back: see `Registry.restored`."""
        return self._registry.restored()

    def doctor(self) -> Sequence[Finding]:
        """Look at what can be wrong with the database."""
        return self.store.doctor()

    def _wake_all(self) -> None:
        self._watch.wake_all()

    def _request(
        self, name: str, handed: Handed, stamped: Stamped | None = None, *, direct: bool = False, looks: bool = True
    ) -> Request:
        remembered = looks and self._registry.knows(name)
        feed = self._registry.recall(name)
        found = ready(feed, handed, self._clock(), exact=stamped is not None, tells=looks)
        if isinstance(found, Unfit) and remembered:
            now = self._registry.load(name)
            if now.revision != feed.revision or now.id != feed.id:  # Another hub has changed it.
                found = ready(now, handed, self._clock(), exact=stamped is not None)
        if stamped is not None:
            handed, found = self.direct.placed(handed, stamped, found)
        if error := refusal(found, exact=stamped is not None and looks):
            raise error
        return Request(name, handed, found, direct=direct, stamped=stamped)


def not_settled(name: str, error: TimeoutError | OutcomeUnknown) -> Unavailable:
    """Return what a read of *name* is told when moving its outbox failed with *error*: to read again is always safe."""
    if isinstance(error, OutcomeUnknown):
        return DatabaseUnavailable(reason=error.reason, retry_after=1)
    return OutboxBacklog(event_type=name, seconds=SETTLE_SECONDS_MAX, retry_after=1)
