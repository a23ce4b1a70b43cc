"""OpenAPI schemas and parameters of subscriptions."""

from typing import Any, Final

from penstock.server.openapi.operation import JSON, AnswerShape, Parameter, SchemaObject, list_of, object_of
from penstock.wire.log.nakadi import BATCH_LIMIT, FLUSH_TIMEOUT, MEDIA_TYPE, NUMBER_MAX, STREAM_TIMEOUT_MAX
from penstock.wire.subscriptions import COMMIT_TIMEOUT, MAX_UNCOMMITTED, STREAM_ID

_TEXT: Final = {"type": "string"}
_UUID: Final = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_NUMBER: Final = {"type": "integer", "minimum": -NUMBER_MAX, "maximum": NUMBER_MAX}
_WHOLE: Final = {"type": "integer", "minimum": 0}
_ATTRIBUTES: Final = list_of(object_of("data_type value", data_type=_TEXT, value=_TEXT), minItems=1)
_OBJECT: Final = {"type": "object", "additionalProperties": _TEXT}
_CURSOR: Final = object_of(
    "partition offset event_type",
    partition=_TEXT,
    offset={"type": "string", "description": "That of the last event consumed, or `BEGIN`."},
    event_type=_TEXT,
    cursor_token=_TEXT,
)
_SUBSCRIPTION: Final[dict[str, Any]] = {
    "owning_application": {"type": "string", "minLength": 1},
    "event_types": list_of(_TEXT, minItems=1),
    "consumer_group": {"type": "string", "minLength": 1, "default": "default"},
    "read_from": {"type": "string", "enum": ["begin", "end", "cursors"], "default": "end"},
    "initial_cursors": list_of(_CURSOR),
    "authorization": {
        "oneOf": [object_of("admins readers", admins=_ATTRIBUTES, readers=_ATTRIBUTES), {"type": "null"}],
    },
    "annotations": _OBJECT,
    "labels": _OBJECT,
}
_PARTITION: Final = object_of(
    "partition state stream_id",
    partition=_TEXT,
    state={"type": "string", "enum": ["unassigned", "reassigning", "assigned"]},
    unconsumed_events=_WHOLE,
    parked_events={**_WHOLE, "description": "Parked events; absent if there are none."},
    consumer_lag_seconds=_WHOLE,
    stream_id={"type": "string", "description": "Empty if no stream owns the partition."},
    assignment_type={"type": "string", "enum": ["auto", "direct"]},
)
_STATUS: Final = list_of(object_of("event_type partitions", event_type=_TEXT, partitions=list_of(_PARTITION)))
_SHOWN: Final = object_of(
    "id owning_application event_types consumer_group read_from created_at updated_at",
    **_SUBSCRIPTION,
    id={"type": "string", "format": "uuid"},
    created_at={"type": "string", "format": "date-time"},
    updated_at={"type": "string", "format": "date-time"},
    status=_STATUS,
)
_BATCH: Final = object_of(
    "cursor",
    cursor=_CURSOR,
    events=list_of({"type": "object"}, minItems=1),
    info=object_of(
        "",
        debug=_TEXT,
        offsets=list_of({**_WHOLE, "description": "Of the events, where some were left out before the cursor."}),
        details={"type": "object", "description": "As in the lines of a feed with `details=1`."},
    ),
)
_PARKED: Final = object_of(
    "id event_type partition key attempts parked_at state events first_offset last_offset",
    id=_TEXT,
    event_type=_TEXT,
    partition=_TEXT,
    key={"type": ["string", "null"]},
    attempts=_WHOLE,
    parked_at={"type": "string", "format": "date-time"},
    state={"type": "string", "enum": ["parked", "retrying"]},
    events=_WHOLE,
    first_offset=_TEXT,
    last_offset=_TEXT,
)


def _answer(description: str, shape: SchemaObject, status: int = 200) -> AnswerShape:
    return AnswerShape(status, description, {JSON: shape}, {})


def _items(shape: SchemaObject, **more: SchemaObject) -> SchemaObject:
    return object_of("items", items=list_of(shape), **more)


IN_PATH: Final = {
    "subscription": {"type": "string", "pattern": _UUID, "description": "The id of a subscription."},
    "stream": {"type": "string", "pattern": _UUID, "description": "The id of a stream."},
    "parked": {"type": "string", "pattern": "^[0-9]{1,18}$"},
}
NEW_SUBSCRIPTION: Final = {JSON: object_of("owning_application event_types", **_SUBSCRIPTION)}
COMMIT: Final = {JSON: _items(_CURSOR)}
RESET: Final = {
    JSON: _items(
        object_of(
            "partition offset event_type",
            partition=_TEXT,
            offset={"type": "string", "description": "An offset, `BEGIN`, `END`, or a time with a zone."},
            event_type=_TEXT,
        ),
        reason=_TEXT,
        dry_run={"type": "boolean", "default": False, "description": "Only tell where it would stand: 200."},
    )
}
RELEASE: Final = {
    JSON: object_of(
        "",
        keep=list_of(object_of("event_type partition", event_type=_TEXT, partition=_TEXT)),
        failed=list_of(object_of("event_type partition", event_type=_TEXT, partition=_TEXT)),
    )
}
REASON: Final = {JSON: object_of("reason", reason={"type": "string", "minLength": 1})}

DONE: Final = AnswerShape(204, "Done.", {}, {})
MOVED: Final = AnswerShape(204, "It is there. With `dry_run`, 200 and where it would be.", {}, {})
CREATED: Final = AnswerShape(
    201,
    "The subscription; where there was one of the same application, event types and group, that one, with 200.",
    {JSON: _SHOWN},
    {"Location": "Where it is.", "Content-Location": "Where it is."},
)
SUBSCRIPTION: Final = _answer("The subscription.", _SHOWN)
_LINK: Final = object_of("href", href=_TEXT)
SUBSCRIPTIONS: Final = _answer(
    "Subscriptions, and the links to the pages before and after.",
    object_of("items _links", items=list_of(_SHOWN), _links=object_of("", next=_LINK, prev=_LINK)),
)
CURSORS: Final = _answer("The cursors; none where it has not begun.", _items(_CURSOR))
COMMITTED: Final = AnswerShape(
    204,
    "All have moved their positions. Where one has not, 200 and what became of each.",
    {},
    {},
)
STREAM: Final = AnswerShape(
    200,
    "Batches, one a line, for as long as the stream lasts; one without events is a keep-alive.",
    {MEDIA_TYPE: list_of(_BATCH)},
    {STREAM_ID: "The id of the stream, with which is committed what it was sent."},
)
STATS: Final = _answer("By event type and partition.", _items(_STATUS["items"]))
RETRIED: Final = _answer("How many keys are sent again.", object_of("retried", retried=_WHOLE))
PARKED_KEYS: Final = _answer("The keys whose events wait.", _items(_PARKED))
PARKED_KEY: Final = _answer(
    "The key, and its first events.",
    object_of("items", **_PARKED["properties"], items=list_of(object_of("offset event", offset=_TEXT, event=_OBJECT))),
)

OF_COMMIT: Final = (
    Parameter(STREAM_ID, "The id of the stream that was sent the cursors.", _TEXT, required=True, place="header"),
)
OF_STATS: Final = (Parameter("show_time_lag", "Include the age of the first uncommitted event.", {"type": "boolean"}),)
OF_PARKED: Final = (
    Parameter("limit", "The largest number of its events to show.", {"type": "integer", "minimum": 1, "maximum": 100}),
)
OF_LIST: Final = (
    Parameter("owning_application", "Those of this application.", _TEXT),
    Parameter("event_type", "Those that read it; given more than once, or with commas: all of them.", _TEXT),
    Parameter("reader", "Those that name it among who may read, such as service:billing.", _TEXT),
    Parameter("limit", "How many, 20 by default.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    Parameter("offset", "Without so many of the newest.", _WHOLE),
    Parameter("token", "`new`, and then what the link `next` has: all, in the order of their ids.", _TEXT),
    Parameter("show_status", "Include the owner of each partition.", {"type": "boolean"}),
)
_NUMBERS: Final = {
    "max_uncommitted_events": f"The largest number of uncommitted events: {MAX_UNCOMMITTED} by default.",
    "batch_limit": f"How many events make a batch, at least 1: {BATCH_LIMIT} by default.",
    "stream_limit": "The stream ends once so many events are committed; 0, the default: it does not.",
    "batch_flush_timeout": "So many seconds after a partition has last sent anything, such as 0.1, it sends what it "
    f"has: {FLUSH_TIMEOUT} by default, and for 0.",
    "batch_timespan": "A batch spans no more than so many seconds; 0, the default: any.",
    "stream_timeout": f"The stream ends after so many seconds, up to {STREAM_TIMEOUT_MAX}; by default after about an "
    "hour.",
    "stream_keep_alive_limit": "The stream ends after so many keep-alives in a row of every partition; 0: it does not.",
    "commit_timeout": f"The stream ends so many seconds after a commit if more waits for one: {COMMIT_TIMEOUT} by "
    "default, and for 0.",
}


def _schema_of(name: str) -> SchemaObject:
    return {**_NUMBER, "type": "number"} if name == "batch_flush_timeout" else _NUMBER


_DETAILS: Final = Parameter(
    "details", "1: in `info.details` the offsets, keys, kinds and times of a batch's events.", {"enum": [0, 1]}
)
OF_STREAM: Final = (*(Parameter(name, text, _schema_of(name)) for name, text in _NUMBERS.items()), _DETAILS)
OF_STREAM_BY_BODY: Final = (_DETAILS,)
STREAM_BODY: Final = {
    JSON: object_of(
        "",
        **{name: {**_schema_of(name), "description": text} for name, text in _NUMBERS.items()},
        partitions=list_of(object_of("event_type partition", event_type=_TEXT, partition=_TEXT)),
    )
}
