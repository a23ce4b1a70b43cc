"""OpenAPI schemas and parameters of consumer groups."""

from collections.abc import Mapping
from typing import Any, Final

from penstock.core.group_names import NAME_CHARS_MAX
from penstock.core.groups.groups import KEPT_AT_CHARS_MAX, KINDS
from penstock.core.groups.parking import DETAIL_CHARS_MAX, STREAM_CHARS_MAX, TAG_CHARS_MAX
from penstock.core.log.start import WORDS
from penstock.server.openapi.operation import (
    EVENT_TYPE_NAME,
    JSON,
    AnswerShape,
    Parameter,
    SchemaObject,
    list_of,
    object_of,
)
from penstock.wire import groups as wire

_STRING: Final = {"type": "string"}
_TIME: Final = {"type": "string", "format": "date-time"}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_MAYBE: Final = {"type": ["integer", "null"], "minimum": 0}
_SECONDS: Final = {"type": ["number", "null"], "minimum": 0}
_KIND: Final = {"enum": list(KINDS)}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX, "pattern": "^[ -~]+$"}
_SLICE: Final = {
    "type": "string",
    "maxLength": NAME_CHARS_MAX,
    "pattern": "^[ -~]*$",
    "description": "A part of the partition; empty where it is not cut, n/partition of a cursor set.",
}
_PLACE: Final = {"event_type": EVENT_TYPE_NAME, "slice": _SLICE, "partition": _NUMBER, "epoch": _NUMBER}
_STORED: Final = object_of("event_type slice partition epoch offset", **_PLACE, offset=_NUMBER)
_LINKS: Final = {"type": "object"}
_TO: Final = {
    "anyOf": [
        {"enum": [*WORDS, None]},
        {"type": "string", "format": "date-time", "description": "The first event received then or later."},
        {
            "type": "string",
            "pattern": "^[0-9]{1,9} ?(s|m|h|d|w)$",
            "description": "The same, so long ago: 30m, 1h, 2d.",
        },
    ]
}

_GROUP: Final[dict[str, Any]] = {
    "name": _STRING,
    "kind": _KIND,
    "event_types": list_of(_STRING),
    "gap": {**_MAYBE, "description": "Events not yet committed; null: a subscription that has not begun."},
    "lag_seconds": {**_SECONDS, "description": "The age of the oldest of them, 0 when there is none."},
    "offset_sum": {
        **_NUMBER,
        "description": "The sum of its offsets: what it grows by is what the group handles. Absent: it has not begun.",
    },
    "owning_application": {**_STRING, "description": "Of a subscription."},
    "consumer_group": {**_STRING, "description": "Of a subscription."},
    "kept_at": {**_STRING, "description": "Where a group of the kind `reported` keeps its positions."},
}
_POSITION: Final = object_of(
    "event_type slice partition epoch offset head gap lag_seconds lost reason updated_at",
    **_PLACE,
    offset={**_NUMBER, "description": "The next offset to read."},
    head={**_MAYBE, "description": "The end of the partition; null: the partition was dropped."},
    gap=_MAYBE,
    lag_seconds=_SECONDS,
    lost={**_MAYBE, "description": "Offsets of events that were removed before they were committed; null: unknown."},
    reason={"type": ["string", "null"], "description": "Why reading cannot continue at this position; null: it can."},
    updated_at=_TIME,
)
_MOVED: Final = object_of(
    "event_type slice partition epoch came_from offset head gap",
    **_PLACE,
    came_from={**_MAYBE, "description": "The offset before; null: there was none."},
    offset=_NUMBER,
    head=_NUMBER,
    gap=_NUMBER,
)
_DONE: Final = object_of(
    "id at kind event_type slice partition epoch came_from went_to reason",
    id=_NUMBER,
    at=_TIME,
    kind=_STRING,
    **_PLACE,
    came_from=_MAYBE,
    went_to=_NUMBER,
    reason={"type": ["string", "null"]},
)
_PARKED_PLACE: Final[dict[str, Any]] = {
    "event_type": EVENT_TYPE_NAME,
    "partition": _NUMBER,
    "stream": {"type": "string", "minLength": 1, "maxLength": STREAM_CHARS_MAX},
}
_PARKED_SPAN: Final[dict[str, Any]] = {
    "index": {**_NUMBER, "description": "Of the event that could not be handled: in a feed its offset."},
    "next": {**_NUMBER, "description": "Behind the last event that has come so far."},
    "events": {**_NUMBER, "description": "How many wait."},
    "attempts": _NUMBER,
    "tag": {"type": "string", "maxLength": TAG_CHARS_MAX},
    "since": {
        "type": "string",
        "pattern": "^[0-9]{1,9}:[0-9]{1,18}$",
        "description": "EPOCH:OFFSET, from which the partition is read again to find them.",
    },
}
_SPAN_NAMES: Final = "index next events attempts tag detail since"
_NEW_PARKED: Final = object_of(
    f"event_type partition stream {_SPAN_NAMES}",
    **_PARKED_PLACE,
    **_PARKED_SPAN,
    detail={"type": "string", "maxLength": DETAIL_CHARS_MAX},
)
_PARKED: Final = object_of(
    f"id event_type partition stream {_SPAN_NAMES} parked_at request",
    id={"type": "string"},
    **_PARKED_PLACE
    | {"stream": {"type": ["string", "null"], "description": "null: the caller may not read the event type."}},
    **_PARKED_SPAN,
    detail={"type": ["string", "null"], "description": "null: the caller may not read the event type."},
    parked_at=_TIME,
    request={"enum": ["retry", "skip", None], "description": "What the processor is asked to do with it."},
)
_PLACE_OF_STREAM: Final = object_of("event_type partition stream", **_PARKED_PLACE)
_TRANCHES: Final = list_of(
    {"type": "string", "maxLength": 300, "description": "EVENT_TYPE/PARTITION, such as `order.placed/3`."}
)
_MEMBER: Final = object_of(
    "member tranches leaving expires_at",
    member=_STRING,
    tranches=_TRANCHES,
    leaving={"type": "boolean", "description": "It ends, and gets nothing more."},
    expires_at={**_TIME, "description": "Its lease ends then, unless it renews it."},
)
IN_PATH: Final[Mapping[str, SchemaObject]] = {
    "group": _NAME,
    "member": {**_NAME, "maxLength": 100},
    "parked": {"type": "string", "pattern": "^[0-9]{1,18}$"},
}
_LIMIT: Final = {"type": "integer", "minimum": 1, "maximum": wire.GROUPS_MAX}
OF_LIST: Final = (
    Parameter("event_type", "Only those that read this event type.", EVENT_TYPE_NAME),
    Parameter("kind", "Only those of this kind.", {"enum": list(KINDS)}),
    Parameter("after", "Only those whose names come after this one.", _NAME),
    Parameter("limit", f"How many, at most {wire.GROUPS_MAX}; 100 by default.", _LIMIT),
)
OF_HISTORY: Final = (
    Parameter("after", "Only what came before this one: the id of the last that is known.", {**_NUMBER, "minimum": 1}),
    Parameter("limit", f"How much, at most {wire.GROUPS_MAX}; 100 by default.", _LIMIT),
)
OF_PARKED: Final = (
    Parameter("after", "Only those parked after this one: the id of the last that is known.", _NUMBER),
    Parameter("limit", f"How many, at most {wire.GROUPS_MAX}; 100 by default.", _LIMIT),
    Parameter("requested", "Only those of which something is wanted.", {"type": "boolean", "default": False}),
)
PARKED: Final = AnswerShape(
    200, "A page of them, oldest first.", {JSON: object_of("items _links", items=list_of(_PARKED), _links=_LINKS)}, {}
)
RETRIED: Final = AnswerShape(200, "How many will be.", {JSON: object_of("retried", retried=_NUMBER)}, {})
REQUESTED: Final = AnswerShape(204, "The processor is asked to.", {}, {})
REASON: Final = {JSON: object_of("reason", reason={"type": "string", "minLength": 1})}
GROUPS: Final = AnswerShape(
    200,
    "A page of them, sorted by name.",
    {
        JSON: object_of(
            "items _links",
            items=list_of(object_of("name kind event_types gap lag_seconds", **_GROUP)),
            _links=_LINKS,
        )
    },
    {},
)
GROUP: Final = AnswerShape(
    200,
    "It, and where it stands.",
    {
        JSON: object_of(
            "name kind event_types gap lag_seconds positions",
            **_GROUP,
            positions=list_of(_POSITION),
            members=list_of({**_MEMBER, "description": "A processor that shares the partitions with others."}),
        )
    },
    {},
)
RENEWAL: Final = {
    JSON: object_of(
        "lease_seconds",
        tranches={**_TRANCHES, "default": [], "description": "The partitions that there are, whoever has them."},
        lease_seconds={"type": "number", "minimum": 0.1, "maximum": wire.LEASE_SECONDS_MAX},
        leaving={"type": "boolean", "default": False, "description": "It ends: it gets nothing more."},
    )
}
RELEASE: Final = {JSON: object_of("tranches", tranches=_TRANCHES)}
HELD: Final = AnswerShape(
    200,
    "The partitions that it has: to be read, to be released for another, and to come from another.",
    {JSON: object_of("tranches leaving coming", tranches=_TRANCHES, leaving=_TRANCHES, coming=_TRANCHES)},
    {},
)
REMOVED: Final = AnswerShape(204, "It is forgotten; others have its partitions.", {}, {})
COMMIT: Final[dict[str, Any]] = {
    JSON: object_of(
        "items",
        items=list_of(
            object_of(
                "event_type partition offset",
                event_type=EVENT_TYPE_NAME,
                partition=_NUMBER,
                offset={**_NUMBER, "description": "The next offset to read."},
                slice={**_SLICE, "default": ""},
                epoch={**_MAYBE, "description": "Of the feed as it was read: refused where it is another one now."},
                expected={**_MAYBE, "description": "Only where this stands there; null: only where nothing does."},
            ),
            minItems=1,
        ),
        kind={"enum": [kind for kind in KINDS if kind != "subscription"], "description": "Of a group that is new."},
        kept_at={
            "type": ["string", "null"],
            "minLength": 1,
            "maxLength": KEPT_AT_CHARS_MAX,
            "description": "Of the kind `reported`: where the positions are kept, without a credential.",
        },
        parked=list_of({**_NEW_PARKED, "description": "A stream that a processor has parked, as it is now."}),
        unparked=list_of(_PLACE_OF_STREAM),
        tried=list_of({**_PLACE_OF_STREAM, "description": "Nothing is wanted of it any longer."}),
    )
}
COMMITTED: Final = AnswerShape(
    200,
    "All of them are stored.",
    {JSON: object_of("items", items=list_of(_STORED))},
    {},
)
NEW_RESET: Final[dict[str, Any]] = {
    JSON: object_of(
        "",
        items=list_of(
            object_of(
                "event_type",
                event_type=EVENT_TYPE_NAME,
                partition={**_MAYBE, "description": "All of them, unless this is given."},
                slice={"type": ["string", "null"], "description": "All that there are, unless this is given."},
                to=_TO,
                offset=_MAYBE,
            ),
            minItems=1,
        ),
        to={**_TO, "description": "Without items: where all positions are to go."},
        reason={"type": ["string", "null"], "maxLength": wire.REASON_CHARS_MAX},
        dry_run={"type": "boolean", "default": False, "description": "Only tell what would be moved."},
    )
}
RESET: Final = AnswerShape(
    200,
    "They are moved, or would be.",
    {JSON: object_of("items dry_run", items=list_of(_MOVED), dry_run={"type": "boolean"})},
    {},
)
HISTORY: Final = AnswerShape(
    200, "A page of it.", {JSON: object_of("items _links", items=list_of(_DONE), _links=_LINKS)}, {}
)
_SAMPLE: Final = object_of(
    "at gap lag_seconds",
    at=_TIME,
    gap={**_NUMBER, "description": "Events that were not committed then."},
    lag_seconds={"type": "number", "minimum": 0, "description": "The age of the oldest of them, 0 if there was none."},
)
LAG: Final = AnswerShape(
    200,
    "What this hub process has measured, oldest first; empty: nothing yet.",
    {
        JSON: object_of(
            "items since",
            items=list_of(_SAMPLE),
            since={**_TIME, "description": "When this hub process began to keep it."},
        )
    },
    {},
)
FORGOTTEN: Final = AnswerShape(204, "It is forgotten.", {}, {})
