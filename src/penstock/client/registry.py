"""Protocol of a hub's event types: their definitions, the compatibility of schemas, and the partition of an event."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, TypedDict

import msgspec

from penstock.client.http.exchanges import JsonExchange, decode_response
from penstock.core.events.encoding import describe_mismatch
from penstock.core.events.event import NewEvent
from penstock.core.events.partitioning import hash_partition, key_text
from penstock.core.registry.definition import is_name
from penstock.errors import (
    BadCursor,
    EventTypeNotFound,
    InvalidEvent,
    InvalidEventType,
    MalformedAnswer,
    ProducerNotFound,
    ProducerStateExpired,
)
from penstock.schema.traversal import Path, key_path
from penstock.wire.arguments import check_type
from penstock.wire.http import Exchange, HttpRequest, HttpResponse, check_path, is_not_applied, is_transient, join_url
from penstock.wire.log.nakadi import parse_offset
from penstock.wire.producers import ProducerProperties


class SchemaChange(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between an event type's schema and another schema."""

    pointer: str
    """JSON pointer into the new schema, or into the old one for a removal."""
    rule: str
    """The kind of change, such as `property-removed`."""
    says: str
    level: str
    """The part of the version number that the change increments: PATCH, MINOR or MAJOR."""
    refused: bool
    """True if the compatibility mode of the event type forbids the change."""
    instead: str = ""
    """An alternative to a refused change."""
    producers: bool = False
    """True if producers can certainly stay unchanged."""
    consumers: bool = False
    """True if consumers can certainly stay unchanged."""
    old: Any = None
    new: Any = None


class Compatibility(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a compatibility check: whether the event type accepts a schema, and the differences."""

    compatible: bool
    compatibility_mode: str
    """The compatibility mode that decided."""
    evolution: str = "nakadi"
    """The rules of mode `forward`: `nakadi`, or `consumers`, which the event guidelines use too."""
    validated_against_version: str
    """The version of the schema that was compared."""
    version: str
    """The version that the schema would get; the current version if the schema is equal or refused."""
    producers: bool
    """True if producers can certainly stay unchanged."""
    consumers: bool
    """True if consumers can certainly stay unchanged."""
    changes: list[SchemaChange] = []
    error: str | None = None
    """The reason for a refusal."""


_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class PartitionChoice:
    """The partitioner of one event type, as of the time it was requested; adding partitions changes it."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self.partition_count = int(definition["partition_count"])
        self._strategy = definition.get("partition_strategy", "random")
        prefix = "data." if definition.get("category") == "data" else ""
        fields: Sequence[str] = definition.get("partition_key_fields", ())
        self._paths: list[Path] = [key_path(prefix + field) for field in fields]

    def of(self, event: NewEvent) -> int | None:
        """Return the partition of *event*; None means any partition.

        Raises:
            InvalidEvent: The event lacks the fields that determine its partition.
        """
        if self._strategy == "random":
            return None
        return self._hash_key(event) if self._strategy == "hash" else self._read_requested_partition(event)

    def _hash_key(self, event: NewEvent) -> int:
        if event.key is not None:
            return hash_partition((event.key,), self.partition_count)
        found = _decode(event.data)
        try:
            texts = tuple([key_text(found, path) for path in self._paths])
        except KeyError as error:
            reason = f"partition key field {error.args[0]!r} is missing; give the event the field, or a key"
            raise InvalidEvent.of("partition-refused", line=1, reason=reason) from None
        return hash_partition(texts, self.partition_count)

    def _read_requested_partition(self, event: NewEvent) -> int:
        asked: Any = event.partition
        if asked is None and isinstance(metadata := _decode(event.data).get("metadata"), dict):
            asked = metadata.get("partition")
        if str(asked) not in map(str, range(self.partition_count)):
            wanted = f"one that there is, 0 to {self.partition_count - 1}"
            raise InvalidEvent.of(
                "partition-refused", line=1, reason=f"its partition {describe_mismatch(asked, wanted)}"
            )
        return int(asked)


@dataclass(frozen=True, slots=True)
class PublishingProperties:
    """The state of a producer group in a partition."""

    partition: int
    producer_group: str
    epoch: int
    last_published_sequence: int | None
    """The sequence number of the last event; None if nothing was published in this epoch."""
    next_sequence: int
    last_offset: int | None
    """The offset of the last event; None if nothing was published in this epoch."""


def properties_of(shown: ProducerProperties) -> PublishingProperties:
    """Return the state of a producer from the hub's response.

    Raises:
        ProducerStateExpired: The hub has forgotten the producer's sequence number.
    """
    if shown.next_sequence is None:
        fields = {"producer_group": shown.producer_group, "partition": shown.partition}
        raise ProducerStateExpired(**fields, current_epoch=shown.epoch)
    return PublishingProperties(
        shown.partition,
        shown.producer_group,
        shown.epoch,
        shown.last_published_sequence,
        shown.next_sequence,
        shown.last_offset,
    )


_SCHEMA_TYPE: Final = "json_schema"
"""The type of a schema in Nakadi's definition; no JSON Schema has a type of this name."""
_JSON: Final = {"content-type": "application/json"}
_ACCEPTED: Final = {"accept": "application/json"}


class PartitionOffsets(msgspec.Struct, frozen=True):
    """The range of offsets that a partition holds."""

    partition: int
    epoch: int
    """The epoch of the feed, which increases when it is created again: offsets of different epochs are unrelated."""
    oldest: int
    """Offset of the first available event."""
    newest: int
    """Offset of the last event; -1 if there has been none."""

    @property
    def head(self) -> int:
        """The offset of the next event."""
        return self.newest + 1


class FoundOffset(NamedTuple):
    """The place in a partition that belongs to a time."""

    partition: int
    epoch: int
    offset: int
    """The first offset received then or later; where the partition ends if there is none."""


class EventTypeOptions(TypedDict, total=False):
    """Members of the definition of a new event type; `create_event_type` of the clients names each as an argument."""

    category: str
    """`undefined` (any JSON object), `business` or `data`."""
    partition_count: int
    max_event_bytes: int
    """Maximum size of an event's feed line in bytes, with all headers."""
    partition_strategy: str
    """`random`, `hash` or `user_defined`."""
    partition_key_fields: Sequence[str]
    """Paths into the event, for the strategy `hash`."""
    owning_application: str
    schema: str | Mapping[str, Any]
    """The JSON Schema of the events."""
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


def make_definition(name: str, traits: EventTypeOptions) -> dict[str, Any]:
    """Return the definition of a new event type in Nakadi's format.

    Required members that *traits* omits are filled in: no owner, and a schema that accepts every event.

    Raises:
        TypeError: A member is unknown. The error suggests a similar name.

    >>> make_definition("order.placed", {"partition_count": 4})["schema"]
    {'type': 'json_schema', 'schema': '{}'}
    """
    given: dict[str, Any] = dict(traits)
    for stranger in given.keys() - EventTypeOptions.__annotations__.keys():
        close = get_close_matches(stranger, EventTypeOptions.__annotations__, 1)
        asks = f"did you mean {close[0]!r}? " if close else ""
        raise TypeError(f"an event type has no {stranger!r}; {asks}Any other members are given with more={{...}}")
    more = given.pop("more", {})
    check_type("more", more, Mapping, "a mapping of further members")
    schema = given.get("schema")
    if schema is not None and not (isinstance(schema, Mapping) and schema.get("type") == _SCHEMA_TYPE):
        given["schema"] = {"type": _SCHEMA_TYPE, "schema": schema_text(schema)}
    return fill_definition({"name": name, **given, **more})


def schema_text(schema: str | Mapping[str, Any]) -> str:
    """Return a JSON Schema as text, the form that a hub stores.

    >>> schema_text({"type": "object"})
    '{"type":"object"}'
    """
    check_type("schema", schema, (str, Mapping), "a JSON Schema as text or mapping")
    return schema if isinstance(schema, str) else msgspec.json.encode(dict(schema)).decode()


def fill_definition(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with the members that a hub requires.

    >>> fill_definition({"name": "order.placed", "category": "business"})["enrichment_strategies"]
    ['metadata_enrichment']
    """
    check_type("definition", given, Mapping, "the definition of an event type as a mapping")
    category = given.get("category", "undefined")
    insisted_on: dict[str, Any] = {
        "owning_application": "",
        "category": category,
        "enrichment_strategies": [] if category == "undefined" else ["metadata_enrichment"],
        "schema": {"type": _SCHEMA_TYPE, "schema": "{}"},
    }
    return insisted_on | dict(given)


def hub_address(url: str, *path: str) -> str:
    """Return the address of *path* at the hub at *url*; the second step of the path, if any, names an event type.

    Raises:
        EventTypeNotFound: The name is not valid, and would lead to another path.
        BadParameter: The name is not a string.
    """
    check_path(path)
    if len(path) > 1 and not is_name(path[1]):
        raise EventTypeNotFound(event_type=path[1])
    return join_url(url, *path)


class EventTypeProtocol:
    """Protocol of a hub's event types."""

    def __init__(self, url: str, *, retry_timeout: float, clock: Callable[[], float]) -> None:
        self._url = url
        self._json = JsonExchange(retry_timeout, clock)
        self._categories: dict[str, str] = {}
        self._choices: dict[str, PartitionChoice] = {}

    def create(self, definition: Mapping[str, Any]) -> Exchange[None]:
        """Create an event type from *definition*, in Nakadi's format."""
        body = msgspec.json.encode(dict(definition))
        request = HttpRequest(method="POST", url=join_url(self._url, "event-types"), headers=_JSON, body=body)
        yield from self._json.send(request, is_not_applied, 201)

    def all(self) -> Exchange[list[dict[str, Any]]]:
        """Return all event types."""
        shown: list[dict[str, Any]] = decode_response((yield from self._get("event-types")), list[dict[str, Any]])
        return shown

    def show(self, name: str) -> Exchange[dict[str, Any]]:
        """Return one event type."""
        shown: dict[str, Any] = decode_response((yield from self._get("event-types", name)), dict[str, Any])
        return shown

    def asyncapi(self, names: Iterable[str]) -> Exchange[dict[str, Any]]:
        """Return the AsyncAPI document of the event types with these *names*; without any, of all."""
        url = join_url(self._url, "asyncapi.json", query=[("event_type", name) for name in names])
        request = HttpRequest(method="GET", url=url, headers=_ACCEPTED)
        answer = yield from self._json.send(request, is_transient, 200)
        shown: dict[str, Any] = decode_response(answer, dict[str, Any])
        return shown

    def replace(self, definition: Mapping[str, Any], *, allow_reordering: bool = False) -> Exchange[None]:
        """Replace the definition of the event type that *definition* names."""
        name = _read_name(definition)
        self.forget(name)
        request = self._put(definition, "event-types", name)
        request = replace(request, url=request.url + _make_query(allow_reordering=allow_reordering))
        yield from self._json.send(request, is_not_applied, 200)

    def check(self, definition: Mapping[str, Any], *, allow_reordering: bool = False) -> Exchange[None]:
        """Check whether the hub would accept *definition* for a new or existing event type.

        The hub's warnings are not logged: they come again with the change itself.
        """
        body = msgspec.json.encode(dict(definition))
        url = hub_address(self._url, "event-types", _read_name(definition), "definition-check")
        url += _make_query(allow_reordering=allow_reordering)
        request = HttpRequest(method="POST", url=url, headers=_JSON, body=body)
        yield from self._json.send(request, is_transient, 204, logs_warnings=False)

    def grow(self, name: str, count: int) -> Exchange[None]:
        """Add partitions until there are *count*; does nothing if there are."""
        request = self._put({"partition_count": count}, "event-types", name, "partition-count")
        yield from self._json.send(request, is_transient, 204)

    def check_compatibility(self, name: str, schema: str, version: str) -> Exchange[Compatibility]:
        """Return the effect of changing the event type's schema from *version* to *schema*."""
        path = ("event-types", name, "schemas", version, "compatibility-check")
        body = msgspec.json.encode({"schema": schema})
        request = HttpRequest(method="POST", url=hub_address(self._url, *path), headers=_JSON, body=body)
        found: Compatibility = decode_response((yield from self._json.send(request, is_transient, 200)), Compatibility)
        return found

    def delete(self, name: str) -> Exchange[None]:
        """Delete an event type and its feed."""
        self.forget(name)
        request = HttpRequest(method="DELETE", url=hub_address(self._url, "event-types", name))
        yield from self._json.send(request, is_not_applied, 200)

    def erase(self, name: str, key: str) -> Exchange[dict[str, Any]]:
        """Have the events of a key erased, and return the erasure."""
        request = HttpRequest(
            method="POST",
            url=hub_address(self._url, "event-types", name, "erasures"),
            headers=_JSON,
            body=msgspec.json.encode({"key": key}),
        )
        found: dict[str, Any] = decode_response(
            (yield from self._json.send(request, is_transient, 202)), dict[str, Any]
        )
        return found

    def erasure(self, name: str, id: str) -> Exchange[dict[str, Any]]:
        """Return an erasure."""
        answer = yield from self._get("event-types", name, "erasures", id)
        found: dict[str, Any] = decode_response(answer, dict[str, Any])
        return found

    def partitions(self, name: str) -> Exchange[list[PartitionOffsets]]:
        """Return the range of offsets of each partition."""
        answer = yield from self._get("event-types", name, "partitions")
        rows = decode_response(answer, list[_WireOffsets])
        return sorted((_offsets(row) for row in rows), key=lambda row: row.partition)

    def find_offsets_since(self, name: str, time: datetime) -> Exchange[list[FoundOffset]]:
        """Return, for each partition in order, the first offset received at *time* or later; else where it ends."""
        url = join_url(hub_address(self._url, "event-types", name, "cursors"), query=[("at", time.isoformat())])
        request = HttpRequest(method="GET", url=url, headers=_ACCEPTED)
        answer = yield from self._json.send(request, is_transient, 200)
        rows = decode_response(answer, list[_WireFoundOffset])
        try:
            found = sorted(FoundOffset(int(row.partition), *parse_offset(row.offset)) for row in rows)
        except (ValueError, BadCursor) as error:
            raise MalformedAnswer(url=answer.url, reason=f"{answer.body[:200]!r} ({error})") from error
        return [each._replace(offset=each.offset + 1) for each in found]  # A cursor names the event before.

    def partition_choice(self, name: str) -> Exchange[PartitionChoice]:
        """Return the event type's partitioner, which is cached."""
        if name not in self._choices:
            self._choices[name] = PartitionChoice((yield from self.show(name)))
        return self._choices[name]

    def producer(self, name: str, partition: int, group: str) -> Exchange[PublishingProperties | None]:
        """Return the state of a producer group in a partition; None if it has not published there."""
        try:
            answer = yield from self._get("event-types", name, "partitions", str(partition), "producers", group)
        except ProducerNotFound:
            return None
        return properties_of(decode_response(answer, ProducerProperties))

    def category(self, name: str) -> Exchange[str]:
        """Return the event type's category, which is cached."""
        if name not in self._categories:
            shown = yield from self.show(name)
            self._categories[name] = str(shown.get("category", "undefined"))
        return self._categories[name]

    def forget(self, name: str) -> None:
        """Remove the event type from the cache, since it may have changed."""
        self._categories.pop(name, None)
        self._choices.pop(name, None)

    def _get(self, *path: str) -> Exchange[HttpResponse]:
        request = HttpRequest(method="GET", url=hub_address(self._url, *path), headers=_ACCEPTED)
        return (yield from self._json.send(request, is_transient, 200))

    def _put(self, value: Mapping[str, Any], *path: str) -> HttpRequest:
        body = msgspec.json.encode(dict(value))
        return HttpRequest(method="PUT", url=hub_address(self._url, *path), headers=_JSON, body=body)


def _make_query(*, allow_reordering: bool) -> str:
    return "?allow_reordering=true" if allow_reordering else ""


def _read_name(definition: Mapping[str, Any]) -> str:
    name = definition.get("name")
    if not isinstance(name, str) or not is_name(name):
        raise InvalidEventType(field="name", reason=describe_mismatch(name, "the name of the event type"))
    return name


class _WireOffsets(msgspec.Struct):
    partition: str
    oldest_available_offset: str
    newest_available_offset: str


class _WireFoundOffset(msgspec.Struct):
    partition: str
    offset: str


def _offsets(row: _WireOffsets) -> PartitionOffsets:
    epoch, newest = parse_offset(row.newest_available_offset)
    _, oldest = parse_offset(row.oldest_available_offset)
    return PartitionOffsets(int(row.partition), epoch, oldest, newest)
