"""What a hub says of giving an event type another schema.

In which partition an event belongs, as its event type says: what the hub goes by, known beforehand.

The hub's event types, from afar.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, TypedDict

import msgspec

from penstock.client.http.exchanges import JsonExchange, decoded
from penstock.core.events.encoding import describe_mismatch
from penstock.core.events.event import NewEvent
from penstock.core.events.partitioning import hash_partition, key_text
from penstock.core.registry.definition import is_name
from penstock.errors import (
    EventTypeNotFound,
    InvalidEventType,
    PartitionRefused,
    ProducerNotFound,
    ProducerStateExpired,
)
from penstock.schema.traversal import Path, key_path
from penstock.wire.http import Answer, Exchange, Request, address, check_steps, is_passing, is_undone
from penstock.wire.log.nakadi import parse_offset
from penstock.wire.producers import Shown


class SchemaChange(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between the schema that an event type has and another one."""

    pointer: str
    """Where, as a JSON pointer into the new schema or, of what is gone, into the old one."""
    rule: str
    """The kind of change, such as `property-removed`."""
    says: str
    level: str
    """Which number of the version it raises: PATCH, MINOR or MAJOR."""
    refused: bool
    """Whether the event type's mode of compatibility does not allow it."""
    instead: str = ""
    """What to do instead, where it is refused."""
    producers: bool = False
    """Whether it is certain that producers can stay as they are."""
    consumers: bool = False
    """Whether it is certain that consumers can stay as they are."""
    old: Any = None
    new: Any = None


class Compatibility(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an event type could be given a schema, and what that would mean."""

    compatible: bool
    compatibility_mode: str
    """The mode by which that is so."""
    evolution: str = "nakadi"
    """By whose list the mode `forward` goes: `nakadi`, or `consumers`, that of the event guidelines too."""
    validated_against_version: str
    """The version of the schema with which it was compared."""
    version: str
    """The version that it would get; where it says the same or is refused, the one that there is."""
    producers: bool
    """Whether it is certain that producers can stay as they are."""
    consumers: bool
    """Whether it is certain that consumers can stay as they are."""
    changes: list[SchemaChange] = []
    error: str | None = None
    """Why it could not be given, where that is so."""


_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class PartitionChoice:
    """Chooses for one event type, as it was when it was asked for; with more partitions keys fall in others."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self.partition_count = int(definition["partition_count"])
        self._strategy = definition.get("partition_strategy", "random")
        prefix = "data." if definition.get("category") == "data" else ""
        fields: Sequence[str] = definition.get("partition_key_fields", ())
        self._paths: list[Path] = [key_path(prefix + field) for field in fields]

    def of(self, event: NewEvent) -> int | None:
        """Return the partition of *event*; None: any will do.

        Raises:
            PartitionRefused: it lacks what would say that.
        """
        if self._strategy == "random":
            return None
        return self._hashed(event) if self._strategy == "hash" else self._asked(event)

    def _hashed(self, event: NewEvent) -> int:
        if event.key is not None:
            return hash_partition((event.key,), self.partition_count)
        found = _decode(event.data)
        try:
            texts = tuple([key_text(found, path) for path in self._paths])
        except KeyError as error:
            reason = f"partition key field {error.args[0]!r} is missing; give the event the field, or a key"
            raise PartitionRefused(line=1, reason=reason) from None
        return hash_partition(texts, self.partition_count)

    def _asked(self, event: NewEvent) -> int:
        asked: Any = event.partition
        if asked is None and isinstance(metadata := _decode(event.data).get("metadata"), dict):
            asked = metadata.get("partition")
        if str(asked) not in map(str, range(self.partition_count)):
            wanted = f"one that there is, 0 to {self.partition_count - 1}"
            raise PartitionRefused(line=1, reason=f"its partition {describe_mismatch(asked, wanted)}")
        return int(asked)


@dataclass(frozen=True, slots=True)
class PublishingProperties:
    """How far a producer has come in a partition."""

    partition: int
    producer_group: str
    epoch: int
    last_published_sequence: int | None
    """None: nothing was published with this epoch."""
    next_sequence: int
    last_offset: int | None
    """The offset of its last event; None: it has none with this epoch."""


def properties_of(shown: Shown) -> PublishingProperties:
    """Return how far a producer has come, as the hub shows it.

    Raises:
        ProducerStateExpired: the hub does not know that any more.
    """
    if shown.next_sequence is None:
        told = {"producer_group": shown.producer_group, "partition": shown.partition}
        raise ProducerStateExpired(**told, current_epoch=shown.epoch)
    return PublishingProperties(
        shown.partition,
        shown.producer_group,
        shown.epoch,
        shown.last_published_sequence,
        shown.next_sequence,
        shown.last_offset,
    )


_SCHEMA_TYPE: Final = "json_schema"
"""As Nakadi's definition says what its schema is; no type of a JSON Schema is called so."""
_JSON: Final = {"content-type": "application/json"}
_ACCEPTED: Final = {"accept": "application/json"}


class PartitionOffsets(msgspec.Struct, frozen=True):
    """Which events one partition holds."""

    partition: int
    epoch: int
    """Raised when the feed is created again: offsets of different epochs have nothing to do with each other."""
    oldest: int
    """Offset of the first event that is available."""
    newest: int
    """Offset of the last event; -1 when there has been none."""

    @property
    def head(self) -> int:
        """The offset that the next event will have."""
        return self.newest + 1


class Traits(TypedDict, total=False):
    """What can be said of an event type when it is created."""

    category: str
    """undefined (any object), business, or data."""
    partition_count: int
    max_event_bytes: int
    """The longest feed line that an event may make, in bytes, with all headers."""
    partition_strategy: str
    """random, hash or user_defined."""
    partition_key_fields: Sequence[str]
    """Paths into the event; for the hash strategy."""
    owning_application: str
    schema: str | Mapping[str, Any]
    """The JSON Schema of its events."""
    annotations: Mapping[str, str]
    audience: str
    authorization: Mapping[str, Any] | None
    cleanup_policy: str
    compatibility_mode: str
    default_statistic: Mapping[str, int]
    enrichment_strategies: Sequence[str]
    event_owner_selector: Mapping[str, Any]
    labels: Mapping[str, str]
    options: Mapping[str, Any]
    ordering_instance_ids: Sequence[str]
    ordering_key_fields: Sequence[str]
    more: Mapping[str, Any]
    """Members that are not named here: they are stored and shown as they are."""


def definition(name: str, traits: Traits) -> dict[str, Any]:
    """Return the definition that creates an event type, in Nakadi's shape.

    What a hub insists on and *traits* do not say is filled in: no owner, and a schema that lets every event pass.

    Raises:
        TypeError: one of *traits* is none, and probably mistyped.

    >>> definition("order.placed", {"partition_count": 4})["schema"]
    {'type': 'json_schema', 'schema': '{}'}
    """
    given: dict[str, Any] = dict(traits)
    for stranger in given.keys() - Traits.__annotations__.keys():
        close = get_close_matches(stranger, Traits.__annotations__, 1)
        asks = f"did you mean {close[0]!r}? " if close else ""
        raise TypeError(f"an event type has no {stranger!r}; {asks}Any other members are given with more={{...}}")
    more = given.pop("more", {})
    schema = given.get("schema")
    if schema is not None and not (isinstance(schema, Mapping) and schema.get("type") == _SCHEMA_TYPE):
        given["schema"] = {"type": _SCHEMA_TYPE, "schema": schema_text(schema)}
    return whole({"name": name, **given, **more})


def schema_text(schema: str | Mapping[str, Any]) -> str:
    """Return a JSON Schema as the text that a hub keeps.

    >>> schema_text({"type": "object"})
    '{"type":"object"}'
    """
    return schema if isinstance(schema, str) else msgspec.json.encode(dict(schema)).decode()


def whole(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with what a hub insists on, where *given* does not say it.

    >>> whole({"name": "order.placed", "category": "business"})["enrichment_strategies"]
    ['metadata_enrichment']
    """
    category = given.get("category", "undefined")
    insisted_on: dict[str, Any] = {
        "owning_application": "",
        "category": category,
        "enrichment_strategies": [] if category == "undefined" else ["metadata_enrichment"],
        "schema": {"type": _SCHEMA_TYPE, "schema": "{}"},
    }
    return insisted_on | dict(given)


def hub_address(url: str, *path: str) -> str:
    """Return where *path* is at the hub at *url*; its second step, if it has one, names an event type.

    Raises:
        EventTypeNotFound: none can be called so, and a hub would take it for another path.
        BadParameter: it is no text.
    """
    check_steps(path)
    if len(path) > 1 and not is_name(path[1]):
        raise EventTypeNotFound(event_type=path[1])
    return address(url, *path)


class EventTypes:
    """The protocol side of a hub's event types."""

    def __init__(self, url: str, *, retry_timeout: float, clock: Callable[[], float]) -> None:
        self._url = url
        self._json = JsonExchange(retry_timeout, clock)
        self._categories: dict[str, str] = {}
        self._choices: dict[str, PartitionChoice] = {}

    def create(self, definition: Mapping[str, Any]) -> Exchange[None]:
        """Create an event type from *definition*, in Nakadi's shape."""
        body = msgspec.json.encode(dict(definition))
        request = Request(method="POST", url=address(self._url, "event-types"), headers=_JSON, body=body)
        yield from self._json.done(request, is_undone, 201)

    def all(self) -> Exchange[list[dict[str, Any]]]:
        """Return all event types."""
        shown: list[dict[str, Any]] = decoded((yield from self._got("event-types")), list[dict[str, Any]])
        return shown

    def show(self, name: str) -> Exchange[dict[str, Any]]:
        """Return one event type."""
        shown: dict[str, Any] = decoded((yield from self._got("event-types", name)), dict[str, Any])
        return shown

    def replace(self, definition: Mapping[str, Any], *, allow_reordering: bool = False) -> Exchange[None]:
        """Let the event type of that name be what *definition* says, in Nakadi's shape."""
        name = _name_in(definition)
        self.forget(name)
        request = self._put(definition, "event-types", name)
        request = replace(request, url=request.url + _asking(allow_reordering=allow_reordering))
        yield from self._json.done(request, is_undone, 200)

    def check(self, definition: Mapping[str, Any], *, allow_reordering: bool = False) -> Exchange[None]:
        """Ask whether the event type of that name could be what *definition* says, created if there is none."""
        body = msgspec.json.encode(dict(definition))
        url = hub_address(self._url, "event-types", _name_in(definition), "definition-check")
        url += _asking(allow_reordering=allow_reordering)
        yield from self._json.done(Request(method="POST", url=url, headers=_JSON, body=body), is_passing, 204)

    def grow(self, name: str, count: int) -> Exchange[None]:
        """Add partitions until there are *count*; harmless where there are so many."""
        request = self._put({"partition_count": count}, "event-types", name, "partition-count")
        yield from self._json.done(request, is_passing, 204)

    def check_compatibility(self, name: str, schema: str, version: str) -> Exchange[Compatibility]:
        """Ask what giving the event type *schema* would mean, if *version* were what it has."""
        path = ("event-types", name, "schemas", version, "compatibility-check")
        body = msgspec.json.encode({"schema": schema})
        request = Request(method="POST", url=hub_address(self._url, *path), headers=_JSON, body=body)
        found: Compatibility = decoded((yield from self._json.done(request, is_passing, 200)), Compatibility)
        return found

    def delete(self, name: str) -> Exchange[None]:
        """Delete an event type and its feed."""
        self.forget(name)
        request = Request(method="DELETE", url=hub_address(self._url, "event-types", name))
        yield from self._json.done(request, is_undone, 200)

    def partitions(self, name: str) -> Exchange[list[PartitionOffsets]]:
        """Return what each partition of the feed holds."""
        answer = yield from self._got("event-types", name, "partitions")
        rows = decoded(answer, list[_WirePartition])
        return sorted((_offsets(row) for row in rows), key=lambda row: row.partition)

    def partition_choice(self, name: str) -> Exchange[PartitionChoice]:
        """Return who says where the event type's events belong, asked for once."""
        if name not in self._choices:
            self._choices[name] = PartitionChoice((yield from self.show(name)))
        return self._choices[name]

    def producer(self, name: str, partition: int, group: str) -> Exchange[PublishingProperties | None]:
        """Return how far a producer group has come in a partition; None: nobody has published so."""
        try:
            answer = yield from self._got("event-types", name, "partitions", str(partition), "producers", group)
        except ProducerNotFound:
            return None
        return properties_of(decoded(answer, Shown))

    def category(self, name: str) -> Exchange[str]:
        """Return the event type's category, asked for once."""
        if name not in self._categories:
            shown = yield from self.show(name)
            self._categories[name] = str(shown.get("category", "undefined"))
        return self._categories[name]

    def forget(self, name: str) -> None:
        """Ask about it again next time: what is known of it may have changed."""
        self._categories.pop(name, None)
        self._choices.pop(name, None)

    def _got(self, *path: str) -> Exchange[Answer]:
        request = Request(method="GET", url=hub_address(self._url, *path), headers=_ACCEPTED)
        return (yield from self._json.done(request, is_passing, 200))

    def _put(self, value: Mapping[str, Any], *path: str) -> Request:
        body = msgspec.json.encode(dict(value))
        return Request(method="PUT", url=hub_address(self._url, *path), headers=_JSON, body=body)


def _asking(*, allow_reordering: bool) -> str:
    return "?allow_reordering=true" if allow_reordering else ""


def _name_in(definition: Mapping[str, Any]) -> str:
    name = definition.get("name")
    if not isinstance(name, str) or not is_name(name):
        raise InvalidEventType(field="name", reason=describe_mismatch(name, "the name of the event type"))
    return name


class _WirePartition(msgspec.Struct):
    partition: str
    oldest_available_offset: str
    newest_available_offset: str


def _offsets(row: _WirePartition) -> PartitionOffsets:
    epoch, newest = parse_offset(row.newest_available_offset)
    _, oldest = parse_offset(row.oldest_available_offset)
    return PartitionOffsets(int(row.partition), epoch, oldest, newest)
