"""The description of event types in AsyncAPI 3.0.

Source: https://www.asyncapi.com/docs/reference/specification/v3.0.0, and the HTTP bindings in version 0.3.0 of
https://github.com/asyncapi/bindings.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from penstock.core.events.event import HEADERS_BYTES_MAX
from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.core.registry.retention import Retention
from penstock.core.times import format_time
from penstock.schema.drafts import convert_to_draft_seven
from penstock.schema.effective import delivered_schema
from penstock.schema.json_text import decode
from penstock.schema.traversal import (
    Pointer,
    Schema,
    follow_reference,
    format_pointer,
    key_path,
    list_references,
    rebuild,
    steps,
)

_encode: Final = msgspec.json.encode
_FRAGMENT: Final = "#/?:@!$&'()*+,;=~"
"""Characters that a URI's fragment has as they are (RFC 3986, 3.5), beside letters, digits, `-`, `.` and `_`."""
SCHEMA_FORMAT: Final = "application/schema+json;version=draft-07"
_HTTP: Final = "0.3.0"
"""The version of the HTTP bindings."""
_JSON: Final = "application/json"
_HEADERS: Final = {
    "type": "object",
    "description": f"The headers of the event: at most {HEADERS_BYTES_MAX} bytes as JSON.",
    "additionalProperties": {"type": "string"},
}
_CATEGORIES: Final[Mapping[str, str]] = {
    "undefined": "Any JSON object.",
    "business": "A step of a business process, with metadata.",
    "data": "A change of data, with metadata.",
}
_SHOWN: Final = (
    *("owning_application", "category", "audience", "partition_strategy", "partition_key_fields"),
    *("ordering_key_fields", "ordering_instance_ids", "cleanup_policy", "compatibility_mode", "max_event_bytes"),
    *("labels", "annotations"),
)
"""Members of a definition that the description of a channel has, unless they are empty."""


class DescribedFeed(NamedTuple):
    """An event type, and the permissions of the reader for it."""

    feed: StoredFeed
    reads: bool
    """True if the reader may read its feed."""
    writes: bool
    """True if the reader may publish to it."""
    retention: Retention
    """For how long the hub keeps its events."""


class HubAddress(NamedTuple):
    """Where a hub answers, and how it authenticates its callers."""

    protocol: str
    """`http` or `https`."""
    host: str
    """Its name or address, with the port unless that is the protocol's own."""
    path: str = ""
    """The path under which it is mounted; empty for none."""
    methods: Sequence[str] = ()
    """The names of the methods by which it authenticates callers; empty: it does not."""


def describe_event_types(feeds: Iterable[DescribedFeed], at: HubAddress, version: str) -> bytes:
    """Return the AsyncAPI document of *feeds* as JSON, at the hub *at* that has this *version*.

    It describes what a client can do: receive the events of the feeds that it may read, and send events to those that
    it may write.
    """
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    categories: set[str] = set()
    for each in feeds:
        event_type = each.feed.event_type
        channels[event_type.name] = msgspec.Raw(_encode(_describe_channel(each)))  # Thousands of schemas are large.
        categories.add(event_type.category)
        if each.reads:
            operations[f"receive.{event_type.name}"] = _describe_operation(event_type, "receive")
        if each.writes:
            operations[f"send.{event_type.name}"] = _describe_operation(event_type, "send")
    server = {"host": at.host, "protocol": at.protocol, "description": "The hub."}
    if at.path:
        server["pathname"] = at.path
    tags = [{"name": name, "description": says} for name, says in _CATEGORIES.items() if name in categories]
    document: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Penstock",
            "version": version,
            "description": "Event types of a Penstock hub, and what its client may do with them.",
            **({"tags": tags} if tags else {}),
            "externalDocs": {
                "description": "The routes of the hub in OpenAPI, with all parameters.",
                "url": f"{at.protocol}://{at.host}{at.path}/openapi.json",
            },
        },
        "defaultContentType": _JSON,
        "servers": {"hub": server | _require(at.methods)},
        "channels": channels,
        "operations": operations,
    }
    schemes = dict(_SCHEMES[each] for each in at.methods if each in _SCHEMES)
    return _encode(document | ({"components": {"securitySchemes": schemes}} if schemes else {}))


_BEARER: Final = {"type": "http", "scheme": "bearer", "description": "A token of the hub, or a JSON Web Token."}
_SCHEMES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "token": ("bearer", _BEARER),
    "jwt": ("bearer", _BEARER),
    "certificate": ("certificate", {"type": "X509", "description": "A client certificate."}),
}
"""By method of authentication: the name that OpenAPI's description has for it too, and its scheme in AsyncAPI."""


def _require(methods: Sequence[str]) -> dict[str, Any]:
    """Return the member `security` of a server; empty if a request may need nothing, as behind a proxy."""
    if not methods or not all(each in _SCHEMES for each in methods):
        return {}
    names = dict.fromkeys(_SCHEMES[each][0] for each in methods)
    return {"security": [{"$ref": f"#/components/securitySchemes/{name}"} for name in names]}


def _describe_channel(described: DescribedFeed) -> dict[str, Any]:
    feed, event_type = described.feed, described.feed.event_type
    definition = event_type.definition
    traits = {name: definition[name] for name in _SHOWN if definition.get(name)}
    kept = described.retention.limits
    extension = traits | {
        "partition_count": feed.partition_count,
        "schema_version": event_type.schema_version,
        "retention_time": kept.time_ms,
        "retention_bytes": kept.size,
        "publishing": "exactly-once" if event_type.is_exactly_once else "any",
        "created_at": format_time(feed.created_at),
        "updated_at": format_time(feed.updated_at),
    }
    return {
        "address": f"/feeds/{event_type.name}",
        "title": event_type.name,
        "description": (
            "The feed of the event type. It has an event a line, in the member `data`, with its `headers` beside it "
            "(application/x-ndjson)."
        ),
        "messages": {event_type.name: _describe_event(event_type)},
        "tags": [{"name": event_type.category}],
        "x-penstock": extension,
    }


def _describe_event(event_type: EventType) -> dict[str, Any]:
    name = event_type.name
    own: Schema = decode(event_type.definition["schema"]["schema"].encode())
    whole = delivered_schema(own, name=name, category=event_type.category, compacted=event_type.is_compacted)
    at = ("channels", name, "messages", name, "payload", "schema")
    root = follow_reference(own, own)
    told = {**(root if isinstance(root, dict) else {}), **own}
    described: dict[str, Any] = {
        "name": name,
        "title": _find_text(told, "title") or name,
        **_describe(_find_text(told, "description")),
        "contentType": _JSON,
        "headers": _HEADERS,
        "payload": {"schemaFormat": SCHEMA_FORMAT, "schema": _place(convert_to_draft_seven(whole), at)},
        "tags": [{"name": event_type.category}],
    }
    if (correlated := _find_correlation(event_type)) is not None:
        described["correlationId"] = correlated
    if examples := _complete_examples(event_type, told.get("examples")):
        described["examples"] = examples
    return described


def _find_text(schema: Schema, word: str) -> str:
    held = schema.get(word)
    return held.strip() if isinstance(held, str) else ""


def _describe(text: str) -> dict[str, str]:
    """Return the summary of a message, and its description if there is more than one line to say."""
    first, _, more = text.partition("\n")
    return ({"summary": first.strip()} if first else {}) | ({"description": text} if more.strip() else {})


def _place(schema: Schema, at: Pointer) -> Schema:
    """Return *schema* as it stands at *at* in a document: without a dialect, its references from the root of that."""

    def change(node: Schema) -> Schema:
        node.pop("$schema", None)
        if "$ref" in node:
            node["$ref"] = quote(format_pointer((*at, *steps(node["$ref"]))), safe=_FRAGMENT)
        return node

    found: Schema = rebuild(schema, change)
    return found


def _find_correlation(event_type: EventType) -> dict[str, str] | None:
    """Return the place of the key if that is one field; else that of the flow id, if events have metadata."""
    if event_type.partition_strategy == "hash" and len(event_type.partition_key_fields) == 1:
        prefix = ("data",) if event_type.category == "data" else ()
        at = (*prefix, *key_path(event_type.partition_key_fields[0]))
        says = "The key: events of one key are in one partition, in their order."
    elif event_type.category != "undefined":
        at, says = ("metadata", "flow_id"), "The flow id of the request that has published the event."
    else:
        return None
    return {"description": says, "location": f"$message.payload{format_pointer(at)}"}


_METADATA: Final = {"eid": "7c1d5a4e-3b0f-4d57-9a55-0f6e0b0a4b11", "occurred_at": "2026-01-01T12:00:00Z"}
_COMPACTED: Final = {"partition_compaction_key": "example"}


def _complete_examples(event_type: EventType, given: Any) -> list[dict[str, Any]]:
    """Return the objects among the examples *given* in a schema as whole events, with metadata if events have some."""
    examples = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    examples = [each for each in examples if not any(True for _ in list_references(each))]  # Tools would follow them.
    metadata = _METADATA | (_COMPACTED if event_type.is_compacted else {})
    match event_type.category:
        case "business":
            examples = [{"metadata": metadata} | each for each in examples]
        case "data":
            examples = [
                {"metadata": metadata, "data_type": event_type.name, "data_op": "C", "data": each} for each in examples
            ]
    return [{"payload": each} for each in examples]


_SAYS: Final[Mapping[str, tuple[str, str, str]]] = {
    "receive": ("Read the events of {}.", "GET", "With cursors; without a query, the partitions of the feed."),
    "send": ("Publish events to {}.", "POST", "An event a line, all of them or none."),
}
_EXACTLY_ONCE: Final = "From the outbox and from idempotent producers alone, at the routes of partitions and batches."


def _describe_operation(event_type: EventType, action: str) -> dict[str, Any]:
    name = event_type.name
    summary, method, description = _SAYS[action]
    is_plain = action == "receive" or not event_type.is_exactly_once
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{name}"},
        "summary": summary.format(name),
        "description": description if is_plain else _EXACTLY_ONCE,
        "messages": [{"$ref": f"#/channels/{name}/messages/{name}"}],
        **({"bindings": {"http": {"method": method, "bindingVersion": _HTTP}}} if is_plain else {}),
    }
