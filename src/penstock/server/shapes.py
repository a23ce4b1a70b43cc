"""The shapes of bodies and answers, for the description of the interface.

What is written as lines is described as an array of its lines, as OpenAPI means sequential media types.
"""

from collections.abc import Mapping
from typing import Any, Final

from penstock.core.event import HEADERS_BYTES_MAX, KEY_CHARS_MAX
from penstock.core.event_type import NAME_CHARS_MAX, PARTITIONS_MAX
from penstock.server.operation import Answer, Schema
from penstock.wire import arrow
from penstock.wire.feedapi import CURSOR_HEADER
from penstock.wire.zeroeventhub import NDJSON

JSON: Final = "application/json"
TEXT: Final = "text/plain"
HTML: Final = "text/html"


def _object(required: str, **properties: Schema) -> dict[str, Any]:
    return {"type": "object", "required": required.split(), "properties": properties}


def _list_of(items: Schema) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _answer(
    description: str, content: Mapping[str, Schema], status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    return Answer(status, description, content, headers or {})


_STRING: Final = {"type": "string"}
_TIME: Final = {"type": "string", "format": "date-time"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_CURSOR: Final = {"type": "string", "description": "To be kept and handed back as it is.", "pattern": "^[!-~]+$"}
_EVENT: Final = {"type": "object", "description": "The event: any JSON object, as its event type has it."}
_HEADERS: Final = {
    "type": "object",
    "description": f"At most {HEADERS_BYTES_MAX} bytes as JSON.",
    "additionalProperties": _STRING,
}
_PARALLELISM: Final = {"type": "integer", "minimum": 1, "maximum": PARTITIONS_MAX}

EVENT_TYPE_NAME: Final = {
    "type": "string",
    "maxLength": NAME_CHARS_MAX,
    "pattern": r"^[a-zA-Z][-0-9a-zA-Z_]*(\.[0-9a-zA-Z][-0-9a-zA-Z_]*)*$",
}
_EVENT_TYPE: Final = _object(
    "name category",
    name=EVENT_TYPE_NAME,
    category={"enum": ["undefined", "business", "data"]},
    owning_application=_STRING,
    partition_strategy={"enum": ["random", "hash", "user_defined"], "default": "random"},
    partition_key_fields={**_list_of({"type": "string", "minLength": 1}), "description": "What `hash` goes by."},
    partition_count={"type": "integer", "minimum": 1, "maximum": PARTITIONS_MAX},
    default_statistic=_object("", read_parallelism=_PARALLELISM, write_parallelism=_PARALLELISM),
)
_CHECKED: Final = ("name", "category", "partition_strategy", "partition_count")
_EVENT_TYPE_SHOWN: Final = {
    **_object(
        " ".join([*_CHECKED, "created_at", "updated_at"]),
        **{name: _EVENT_TYPE["properties"][name] for name in _CHECKED},
        created_at=_TIME,
        updated_at=_TIME,
    ),
    "description": "And whatever else its owner has said of it, as it was given.",
}
_PARTITION: Final = _object(
    "partition oldest_available_offset newest_available_offset",
    partition=_STRING,
    oldest_available_offset=_STRING,
    newest_available_offset=_STRING,
)
_DISCOVERY: Final = _object(
    "token partitions exactlyOnce",
    token=_STRING,
    partitions=_list_of(_object("id", id=_STRING)),
    exactlyOnce={"type": "boolean"},
)
_LINE: Final = _object("data", data=_EVENT, headers=_HEADERS)
_V1_PLACE: Final = {"partition": _COUNT}
_V1_PAGE: Final = _list_of(
    {"oneOf": [_object("partition data", **_V1_PLACE, data=_EVENT, headers=_HEADERS),
               _object("partition cursor", **_V1_PLACE, cursor=_CURSOR)]}
)  # fmt: skip
_V2_PAGE: Final = _list_of({"oneOf": [_LINE, _object("cursor", cursor=_CURSOR)]})
_NEW_LINE: Final = {
    "type": "object",
    "description": "An event; or, without data, a cursor line as a feed gives it, which is passed over.",
    "anyOf": [{"required": ["data"]}, {"required": ["cursor"]}],
    "properties": {
        "data": _EVENT,
        "key": {"type": ["string", "null"], "maxLength": KEY_CHARS_MAX},
        "headers": {"anyOf": [_HEADERS, {"type": "null"}]},
        "partition": {"type": ["integer", "null"], "description": "Obeyed under `user_defined` alone."},
        "cursor": {"type": ["string", "null"]},
    },
}
_PUBLISHED: Final = _object("count cursors", count=_COUNT, cursors={"type": "object", "additionalProperties": _CURSOR})
_STATUS: Final = _object("status", status=_STRING)
_ARROW: Final = {
    "type": "string",
    "contentEncoding": "binary",
    "description": f"Columns: {', '.join(arrow.SCHEMA.names)}.",
}
_CURSOR_AFTER: Final = {
    CURSOR_HEADER: "With Arrow: the cursor just after the page, where it is known when the page begins."
}

NEW_EVENT_TYPE: Final = {JSON: _EVENT_TYPE}
NEW_LINES: Final = {NDJSON: _list_of(_NEW_LINE)}

CREATED: Final = _answer("It exists now.", {}, 201)
DELETED: Final = _answer("It is gone, with all its events.", {})
EVENT_TYPES: Final = _answer("All event types.", {JSON: _list_of(_EVENT_TYPE_SHOWN)})
EVENT_TYPE: Final = _answer("As its owner gave it, with the defaults filled in.", {JSON: _EVENT_TYPE_SHOWN})
PARTITIONS: Final = _answer("Each with its first and its last offset.", {JSON: _list_of(_PARTITION)})
PAGE_V1: Final = _answer(
    "Without arguments what the feed consists of, else events and cursors, one a line.",
    {JSON: _DISCOVERY, NDJSON: _V1_PAGE, arrow.MEDIA_TYPE: _ARROW},
    headers=_CURSOR_AFTER,
)
PAGE_V2: Final = _answer(
    "Events and cursors, one a line; the last is a cursor.",
    {NDJSON: _V2_PAGE, arrow.MEDIA_TYPE: _ARROW},
    headers=_CURSOR_AFTER,
)
PUBLISHED: Final = _answer("How many, and by partition the cursor just after them.", {JSON: _PUBLISHED})
STATUS: Final = _answer("All is well.", {JSON: _STATUS})
OK: Final = _answer("OK", {TEXT: _STRING})
INDEX: Final = _answer(
    "What answers here, and where to go on: the path of each.",
    {JSON: _object("name version docs", name=_STRING, version=_STRING, docs=_STRING)},
)
VERSION: Final = _answer("The version.", {JSON: _object("name version", name=_STRING, version=_STRING)})
METRICS: Final = _answer("In Prometheus' format.", {TEXT: _STRING})
DESCRIPTION: Final = _answer("This document.", {JSON: {"type": "object"}})
DOCS: Final = _answer("A page for a browser.", {HTML: _STRING})
