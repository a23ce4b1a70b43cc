"""The registry of event types: create, change, list and drop them, and remember them for publishing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from penstock.core.access import Sender
from penstock.core.fields import Definition
from penstock.core.registry.definition import PENSTOCK, Limits, read_schema_member
from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.core.registry.replacement import Replacement, replace_definition
from penstock.core.times import format_time
from penstock.errors import (
    BadParameter,
    EventTypeInUse,
    EventTypeNotFound,
    Forbidden,
    IncompatibleSchema,
    InvalidEventType,
    NotOffered,
    PenstockError,
    SchemaVersionNotFound,
)
from penstock.hub.admin.settings import Settings
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, lock_logs_before, record_change, record_changes
from penstock.hub.log.publish import OWN_EVENT_TYPES
from penstock.hub.own_events import find_feature
from penstock.hub.subscriptions.slots import add_partitions, is_deleted_with_event_type, lock_readers
from penstock.schema.evolution import NOTHING_CHANGES, EvolutionVerdict, describe_changes
from penstock.schema.guidelines import check
from penstock.schema.parsing import parse_schema
from penstock.schema.traversal import is_equal
from penstock.storage.store import Store, Tx

LATEST: Final = "latest"


class Comparison(NamedTuple):
    """The comparison of an event type with a proposed schema."""

    compared: EventType
    """The event type, with the schema version that was compared."""
    version: str
    """The version that the schema would get; the current version if it is refused or means the same."""
    producers: bool
    """True if existing producers are certain to stay compatible."""
    consumers: bool
    """True if existing consumers are certain to stay compatible."""
    changes: Sequence[dict[str, Any]]
    """As they are `describe_changes`."""
    refused: PenstockError | None
    """The error that a change to this schema would raise, or None."""


class Registry:
    """The event types of one store.

    Remembered event types may be out of date, because other processes change them too: appends and pages notice by the
    revision of the heads, other reads ask the store.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        limits: Limits = PENSTOCK,
        *,
        settle: Callable[[str], object] = lambda _: None,
        sweep: Callable[[], object] = lambda: None,
    ) -> None:
        """*settle* moves the outbox of an event type, *sweep* starts removing what has expired or was dropped."""
        self._store = store
        self._clock = clock
        self._settings = settings
        self._limits = limits
        self._settle = settle
        self._sweep = sweep
        self._known: dict[str, StoredFeed] = {}
        self.remembered: Mapping[str, StoredFeed] = self._known
        """The event types by name, as they were when last seen."""

    def create(self, definition: Any, by: Sender | None = None, *, is_exempt: Callable[[], bool] = bool) -> None:
        """Create the event type that *definition* describes in Nakadi's shape; it belongs to the caller *by*.

        A caller for whom *is_exempt* returns true creates one though a feature forbids it.

        Raises:
            InvalidEventType: names the field and the rule, or the guidelines that it breaks, if this hub refuses event
                types that break some.
            EventTypeExists: the name is taken.
            NotOffered, HubUnavailable: an operator has switched this off.
        """
        self._check_creation(is_exempt)
        event_type = self._parse(definition)
        if event_type.name in OWN_EVENT_TYPES:
            raise InvalidEventType(field="name", reason=f"may not be {event_type.name!r}: the hub creates that itself")
        self._settings.check_changes()
        with self._store.write() as tx:
            now = self._clock()
            created = _set_created_at(event_type, now)
            tx.registry.insert(created, now, None if by is None else by.owner)
            record_change(tx, AuditedChange("event_type", created.name, None, created.whole), by, now)
            tx.settings.note_access_change()

    def replace(
        self, name: str, definition: Any, *, allow_reordering: bool = False, by: Sender | None = None
    ) -> EvolutionVerdict | None:
        """Replace the definition of an event type; return the verdict on its schema, None if the schema stays.

        Changes that lose the order of the events of a key need *allow_reordering*: see `replaced`.

        Raises:
            EventTypeNotFound: there is none.
            InvalidEventType, IncompatibleSchema: the change is not allowed: see `replaced`; or it would break
                guidelines, and this hub refuses event types that do.
            HubUnavailable: an operator has switched this off.
        """

        def change(old: EventType, _: StoredFeed) -> Replacement:
            return self._replace(old, definition, allow_reordering=allow_reordering)

        self._prepare_change(name)
        verdict = self._change(name, change, by).verdict
        self._sweep()  # Its retention may be another one.
        return verdict

    def grow(self, name: str, count: Any, by: Sender | None = None) -> None:
        """Add partitions to an event type until it has *count*; harmless if it has that many.

        Keys may be assigned to other partitions from then on, so the order of a key's events is lost at this moment.

        Raises:
            EventTypeNotFound: there is none.
            InvalidEventType: *count* is no integer, below the current number, or above the limit.
        """

        def add_partitions(old: EventType, feed: StoredFeed) -> Replacement:
            self._check_count(count, feed)
            statistic = old.definition["default_statistic"]
            if statistic is not None:
                statistic = statistic | {"read_parallelism": count, "write_parallelism": count}
            return Replacement(EventType.of(old.definition | {"default_statistic": statistic}, count), None)

        self._prepare_change(name)
        self._change(name, add_partitions, by)

    def check(
        self, name: str, definition: Any, *, allow_reordering: bool = False, is_exempt: Callable[[], bool] = bool
    ) -> EventType:
        """Return the event type that *name* could become by *definition*; nothing is changed.

        It would be created if it does not exist, else replaced, with more partitions if *definition* says so.

        Raises:
            PenstockError: whatever `create`, `replace` or `grow` would raise.
        """
        with self._store.read() as tx:
            feed = tx.registry.find(name)
        if feed is None:
            self._check_creation(is_exempt)
        found = self._foresee(feed, name, definition, allow_reordering=allow_reordering)
        self._settings.check_changes()
        return found

    def _foresee(self, feed: StoredFeed | None, name: str, definition: Any, *, allow_reordering: bool) -> EventType:
        """Return what *feed*, or a new event type if it is None, would become; raise if it could not."""
        if feed is None:
            event_type = self._parse(definition)
            if event_type.name != name:
                raise InvalidEventType(field="name", reason=f"must be {name!r}, as in the path")
            return event_type
        given = dict(definition) if isinstance(definition, dict) else definition
        if isinstance(given, dict) and (count := given.pop("partition_count", None)) is not None:
            self._check_count(count, feed)
        return self._replace(feed.event_type, given, allow_reordering=allow_reordering).event_type

    @property
    def has_creation(self) -> bool:
        """True if callers can create event types who are not exempt from `disable_event_type_creation`."""
        return not self._settings.is_on("disable_event_type_creation")

    @property
    def has_deletion(self) -> bool:
        """True if callers can drop event types who are not exempt from `disable_event_type_deletion`."""
        return not self._settings.is_on("disable_event_type_deletion")

    def _check_creation(self, is_exempt: Callable[[], bool]) -> None:
        if not self.has_creation and not is_exempt():
            raise NotOffered(feature="disable_event_type_creation")

    def _prepare_change(self, name: str) -> None:
        """Move the outbox, so that its events are held to the event type that they were checked against."""
        self._settings.check_changes()
        self._settle(name)

    def delete(self, name: str, by: Sender | None = None, *, is_exempt: Callable[[], bool] = bool) -> None:
        """Drop the event type and all its events.

        A caller for whom *is_exempt* returns true drops one though `disable_event_type_deletion` is on.

        Raises:
            EventTypeNotFound: there is none.
            EventTypeInUse: subscriptions read it, and the feature `delete_event_type_with_subscriptions` is off.
            Forbidden, HubUnavailable: an operator has switched this off; or the hub publishes to it now.
        """
        feature = find_feature(name)
        if feature is not None and feature in self._settings.current().features:
            raise Forbidden(f"{name!r} cannot be deleted while the feature {feature} is on")
        if not self.has_deletion and not is_exempt():
            raise Forbidden("event types cannot be deleted here: the feature disable_event_type_deletion is on")
        self._settings.check_changes()
        with_subscriptions = self._settings.is_on("delete_event_type_with_subscriptions")
        self._known.pop(name, None)
        while not self._try_delete(name, by, with_subscriptions=with_subscriptions):
            pass
        self._sweep()

    def _try_delete(self, name: str, by: Sender | None, *, with_subscriptions: bool) -> bool:
        """Drop the event type; return False, having done nothing, if a subscription was created meanwhile."""
        with self._store.write() as tx:
            readers = lock_readers(tx, name)
            lock_logs_before(tx, name, self._clock())
            feed = tx.registry.find(name, lock=True)
            if feed is None:
                raise EventTypeNotFound(event_type=name)
            if not readers.keys() >= set(tx.subscriptions.list_readers(name)):
                return False
            in_use = [
                each.id for each in readers.values() if not (with_subscriptions or is_deleted_with_event_type(each))
            ]
            if in_use:
                raise EventTypeInUse(event_type=name, subscriptions=in_use)
            for each in readers:
                tx.groups.delete(each)
            tx.registry.delete(name)
            gone = [AuditedChange("subscription", each.id, each.definition, None) for each in readers.values()]
            record_changes(
                tx, [*gone, AuditedChange("event_type", name, feed.event_type.whole, None)], by, self._clock()
            )
            tx.settings.note_access_change()
        return True

    def list(self) -> Sequence[StoredFeed]:
        """Return all event types' feeds, sorted by name."""
        with self._store.read() as tx:
            return tx.registry.list()

    def load(self, name: str) -> StoredFeed:
        """Return the feed as the store has it now.

        Raises:
            EventTypeNotFound: there is none.
        """
        with self._store.read() as tx:
            feed = tx.registry.find(name)
        return self.remember(name, feed)

    def remember(self, name: str, feed: StoredFeed | None) -> StoredFeed:
        """Remember *feed* as the current definition of *name*, and return it.

        Raises:
            EventTypeNotFound: *feed* is None.
        """
        if feed is None:
            self._known.pop(name, None)
            raise EventTypeNotFound(event_type=name)
        self._known[name] = feed
        return feed

    def is_light(self, name: str, size: int) -> bool:
        """Return whether an event loop may prepare a publish of *size* bytes to *name* itself.

        It may not if the database has to be asked first, or if a schema has to be compiled.
        """
        feed = self._known.get(name)
        return feed is not None and feed.event_type.is_light(size)

    def recall(self, name: str) -> StoredFeed:
        """Return the remembered feed; `load` it if it is not remembered."""
        return self._known.get(name) or self.load(name)

    def raise_epochs(self, by: Sender | None = None) -> int:
        """Raise the epoch of every feed after a backup was restored; return the number of feeds.

        Cursors that point behind the end of the backup are refused from then on. The audit log names the sender *by*.
        """
        self._known.clear()
        with self._store.write() as tx:
            before = _list_epochs(tx)
            count = tx.registry.raise_epochs()
            change = AuditedChange("database", "epochs", {"epochs": before}, {"epochs": _list_epochs(tx)})
            record_change(tx, change, by, self._clock())
            return count

    # Schemas

    def list_schemas(self, name: str, *, limit: int, offset: int) -> Sequence[Definition]:
        """Return up to *limit* versions of an event type's schema, newest first, without the newest *offset*.

        Raises:
            EventTypeNotFound: there is none.
        """
        with self._store.read() as tx:
            return tx.registry.list_schemas(tx.registry.get(name), limit=limit, offset=offset)

    def find_schema(self, name: str, version: str) -> Definition:
        """Return one version of an event type's schema, by its number or as `latest`.

        Raises:
            BadParameter: *version* is not a version number.
            EventTypeNotFound, SchemaVersionNotFound: there is none.
        """
        with self._store.read() as tx:
            return _find_version(tx, tx.registry.get(name), version)

    def find_equal_schema(self, name: str, given: Any) -> Definition:
        """Return the newest schema version that means the same as *given*, `{"type": …, "schema": …}`.

        Raises:
            InvalidEventType: *given* is no schema.
            EventTypeNotFound, SchemaVersionNotFound: there is none.
        """
        wanted = parse_schema(read_schema_member(given, within="")["schema"])
        seen = 0
        while versions := self.list_schemas(name, limit=_AT_ONCE, offset=seen):
            for each in versions:
                if is_equal(parse_schema(each["schema"]), wanted):
                    return each
            seen += len(versions)
        raise SchemaVersionNotFound(f"no schema version of {name!r} says the same", event_type=name, version=None)

    def add_schema(self, name: str, given: Any, by: Sender | None = None) -> EvolutionVerdict | None:
        """Replace the schema of an event type, with the same checks as `replace`.

        Raises:
            EventTypeNotFound: there is none.
            InvalidEventType, IncompatibleSchema: the schema is not allowed, or it would break guidelines, and this hub
                refuses event types that do.
            HubUnavailable: an operator has switched this off.
        """
        schema = read_schema_member(given, within="")

        def change(old: EventType, _: StoredFeed) -> Replacement:
            return self._replace(old, old.definition | {"schema": schema})

        self._prepare_change(name)
        verdict = self._change(name, change, by).verdict
        self._sweep()  # Its retention may be another one.
        return verdict

    def compare(self, name: str, version: str, given: Any) -> "Comparison":
        """Compare the schema *given*, `{"type": …, "schema": …}`, with the schema *version* of an event type.

        The type may be left out. Nothing is changed.

        Raises:
            BadParameter, EventTypeNotFound, SchemaVersionNotFound: there is no such version.
            InvalidEventType, UnsupportedFormat: *given* is no JSON Schema in a string.
        """
        with self._store.read() as tx:
            feed = tx.registry.get(name)
            compared = _find_version(tx, feed, version)
        old = EventType.of(feed.event_type.definition | {"schema": compared}, feed.partition_count)
        typed = {"type": "json_schema"} | given if isinstance(given, dict) else given
        schema = read_schema_member(typed, within="")
        try:
            done = self._apply(old, old.definition | {"schema": schema})
        except (IncompatibleSchema, InvalidEventType) as error:
            said: dict[str, Any] = {"producers": False, "consumers": False, "changes": []} | error.fields
            return Comparison(old, old.schema_version, said["producers"], said["consumers"], said["changes"], error)
        verdict = done.verdict or NOTHING_CHANGES
        changes = describe_changes(verdict, old.evolution_rules)
        return Comparison(
            old, done.event_type.schema_version, verdict.producers, verdict.consumers, changes, refused=None
        )

    def _parse(self, definition: Any) -> EventType:
        event_type = EventType.parse(definition, self._limits)
        self._check_guidelines(event_type)
        return event_type

    def _replace(self, old: EventType, definition: Any, *, allow_reordering: bool = False) -> Replacement:
        done = self._apply(old, definition, allow_reordering=allow_reordering)
        self._check_guidelines(done.event_type)
        return done

    def _apply(self, old: EventType, definition: Any, *, allow_reordering: bool = False) -> Replacement:
        earlier = partial(self._list_earlier, old)
        return replace_definition(
            old, definition, admin=True, allow_reordering=allow_reordering, limits=self._limits, earlier=earlier
        )

    def _list_earlier(self, event_type: EventType) -> Iterator[Definition]:
        """Yield the earlier versions of a schema with the same major number, newest first."""
        last = _parse_version(event_type.schema_version)
        seen = 0
        while versions := self.list_schemas(event_type.name, limit=_AT_ONCE, offset=seen):
            seen += len(versions)
            for each in versions:
                version = _parse_version(each["version"])
                if version[0] < last[0]:
                    return
                if version[0] == last[0] and version < last:
                    yield each

    def _check_count(self, count: Any, feed: StoredFeed) -> None:
        most = self._limits.partitions_max
        if type(count) is not int:
            raise InvalidEventType.of(
                "malformed-event-type", field="partition_count", reason=f"must be a whole number up to {most}"
            )
        if not feed.partition_count <= count <= most:
            right = f"must be from {feed.partition_count}, which there are, to {most}, not {count}"
            raise InvalidEventType(field="partition_count", reason=right)

    def _check_guidelines(self, event_type: EventType) -> None:
        if not self._limits.refuses_by_guidelines:
            return
        broken = [each for each in check(event_type.whole) if each.rule.level == "MUST" and not each.waived]
        if broken:
            raise InvalidEventType.of(
                "guidelines-broken", event_type=event_type.name, broken=[str(each) for each in broken]
            )

    def _change(
        self, name: str, change: Callable[[EventType, StoredFeed], Replacement], by: Sender | None
    ) -> Replacement:
        """Replace an event type by the result of *change*.

        *change* runs before the transaction, because comparing schemas may take a second, and other writers wait for
        the transaction. It runs again if the event type has changed meanwhile.
        """
        while True:
            feed = self.load(name)
            done = change(feed.event_type, feed)
            now = self._clock()
            if done.verdict is not None:
                done = done._replace(event_type=_set_created_at(done.event_type, now))
            with self._store.write() as tx:
                grows = done.event_type.partition_count > feed.partition_count
                readers = lock_readers(tx, name) if grows else {}
                lock_logs_before(tx, name, now)
                locked = tx.registry.find(name, lock=True)
                if grows and not readers.keys() >= set(tx.subscriptions.list_readers(name)):
                    continue  # A new subscription can no longer be locked in the right order: start again.
                if locked is not None and (locked.id, locked.revision) == (feed.id, feed.revision):
                    if done.event_type != feed.event_type:
                        tx.registry.update(feed, done.event_type, now)
                        add_partitions(tx, feed, done.event_type.partition_count, now)
                        record_change(
                            tx, AuditedChange("event_type", name, feed.event_type.whole, done.event_type.whole), by, now
                        )
                        if done.event_type.definition["authorization"] != feed.event_type.definition["authorization"]:
                            tx.settings.note_access_change()
                    break
        self._known.pop(name, None)
        return done


_AT_ONCE: Final = 20
"""The number of schema versions, of up to 1 MiB each, that are in memory at once."""


def _set_created_at(event_type: EventType, now: int) -> EventType:
    schema = event_type.definition["schema"] | {"created_at": format_time(now)}
    return EventType.of(event_type.definition | {"schema": schema}, event_type.partition_count)


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _list_epochs(tx: Tx) -> Mapping[str, int]:
    return {each.name: each.epoch for each in tx.registry.list()}


def _find_version(tx: Tx, feed: StoredFeed, version: str) -> Definition:
    if version == LATEST:
        version = feed.event_type.schema_version
    if not is_version(version):
        raise BadParameter(parameter="version", value=version, allowed="a version such as 1.0.0, or latest")
    for schema in tx.registry.list_schemas(feed, version=version):
        return schema
    raise SchemaVersionNotFound(event_type=feed.name, version=version)


def is_version(text: str) -> bool:
    """Return whether *text* has the form of a schema version.

    >>> is_version("1.0.0"), is_version("1.0")
    (True, False)
    """
    numbers = text.split(".")
    return len(numbers) == 3 and all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers)
