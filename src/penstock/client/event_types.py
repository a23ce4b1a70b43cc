"""The hub's event types, from afar."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final, TypedDict

import msgspec

from penstock.client.compatibility import Compatibility
from penstock.client.json_exchange import JsonExchange, decoded
from penstock.client.partition_choice import PartitionChoice
from penstock.client.producer_options import PublishingProperties, properties_of
from penstock.core.events.encoding import unlike
from penstock.core.registry.definition import is_name
from penstock.errors import EventTypeNotFound, InvalidEventType, ProducerNotFound
from penstock.wire.exchange import Answer, Exchange, Request, address, check_steps
from penstock.wire.nakadi import parse_offset
from penstock.wire.producers import Shown
from penstock.wire.refusal import is_undone
from penstock.wire.retry import is_passing

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

    def __init__(self, url: str, *, patience: float, clock: Callable[[], float]) -> None:
        self._url = url
        self._json = JsonExchange(patience, clock)
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
        raise InvalidEventType(field="name", reason=unlike(name, "the name of the event type"))
    return name


class _WirePartition(msgspec.Struct):
    partition: str
    oldest_available_offset: str
    newest_available_offset: str


def _offsets(row: _WirePartition) -> PartitionOffsets:
    epoch, newest = parse_offset(row.newest_available_offset)
    _, oldest = parse_offset(row.oldest_available_offset)
    return PartitionOffsets(int(row.partition), epoch, oldest, newest)
