"""OpenAPI schemas and parameters of feeds, partitions, cursors and streams.

A body of lines is described as an array of its lines, as OpenAPI does with sequential media types.
"""

from typing import Any, Final

from penstock.core.events.event import HEADERS_BYTES_MAX, KEY_CHARS_MAX
from penstock.core.log.cursor import VIEW_PARTITIONS_MAX
from penstock.server.openapi.operation import (
    JSON,
    AnswerShape,
    Parameter,
    SchemaObject,
    answer_of,
    list_of,
    object_of,
)
from penstock.wire.log.cloudevents import BATCHED, STRUCTURED
from penstock.wire.log.feedapi import ARROW, ARROW_COLUMNS, CURSOR_HEADER, LEFT_OUT_HEADER
from penstock.wire.log.nakadi import (
    BATCH_LIMIT,
    FLUSH_TIMEOUT,
    HEADER,
    MEDIA_TYPE,
    NUMBER_MAX,
    STREAM_TIMEOUT_MAX,
)
from penstock.wire.log.server_sent_events import (
    EVENT_STREAM,
    HEARTBEAT_SECONDS,
    HEARTBEAT_SECONDS_MAX,
    LAST_EVENT_ID,
    LAST_EVENT_ID_PARAMETER,
)
from penstock.wire.log.zeroeventhub import (
    CHUNK_EVENTS_MAX,
    CURSORSET_CHARS_MAX,
    NDJSON,
    PAGE_SIZE,
    PAGE_SIZE_MAX,
    WAIT_SECONDS_MAX,
)

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_COUNT: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}
_NUMBER: Final[dict[str, Any]] = {"type": "integer", "minimum": 1, "maximum": VIEW_PARTITIONS_MAX}
_CHUNK: Final[dict[str, Any]] = {"type": "integer", "minimum": 0, "maximum": CHUNK_EVENTS_MAX}
_NAME: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": CURSORSET_CHARS_MAX,
    "pattern": "^[ -~]*$",
}
_CURSOR: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "pattern": "^[ -~]*$"}

_FLAG: Final[dict[str, Any]] = {"enum": [0, 1]}

_LIVE: Final = (
    Parameter(
        LAST_EVENT_ID,
        f"With `{EVENT_STREAM}`: the id of the last message, after which the stream goes on. `EventSource` sends it.",
        _CURSOR,
        place="header",
    ),
    Parameter(
        LAST_EVENT_ID_PARAMETER,
        f"With `{EVENT_STREAM}`: the same, `_first` or `_last`, for readers that cannot set the header, which wins.",
        _CURSOR,
    ),
    Parameter(
        "heartbeat",
        f"With `{EVENT_STREAM}`: seconds of silence until a comment is sent, at least 1, cut at "
        f"{HEARTBEAT_SECONDS_MAX:g}; {HEARTBEAT_SECONDS:g} by default.",
        {"type": "number", "minimum": 1},
    ),
    Parameter("unnamed", f"With `{EVENT_STREAM}`: 1 leaves out the names of messages.", _FLAG),
)
_SHARED: Final = (
    Parameter(
        "pagesizehint",
        f"How many events: {PAGE_SIZE} by default, cut at {PAGE_SIZE_MAX}; 0 gives cursors alone.",
        _COUNT,
    ),
    Parameter("headers", "Which headers to show, separated by commas; `_all` for all.", _TEXT),
    Parameter(
        "wait", f"Seconds to wait when there is nothing, cut at {WAIT_SECONDS_MAX:g}.", {"type": "number", "minimum": 0}
    ),
    Parameter(
        "details",
        "1: lines with the offsets, keys, kinds and times of the events after them; "
        f"with `{EVENT_STREAM}` each event is the member `data` of an object that has them.",
        _FLAG,
    ),
    Parameter("event-types", "Only these kinds, separated by `;`.", _TEXT),
    Parameter("skip-event-types", "All but these kinds, separated by `;`.", _TEXT),
    *_LIVE,
)
V1: Final = (
    Parameter(
        "n",
        "How many partitions you want to see: the feed's number, a divisor or a multiple of it. Streams take 1 without "
        "it.",
        _NUMBER,
    ),
    Parameter("cursor0", "A cursor for partition 0, `_first` or `_last`; likewise cursor1 and so on.", _CURSOR),
    Parameter("until0", "Stop at this cursor of partition 0; likewise until1 and so on.", _CURSOR),
    Parameter("cursorset", "Your name, under which the cursors of this request are kept.", _NAME),
    Parameter("resume", "Partitions to go on with where the cursor set stands, separated by commas.", _TEXT),
    Parameter("store_cursor", "1 together with `pagesizehint=0`: only keep the cursors.", _FLAG),
    *_SHARED,
)
V2: Final = (
    Parameter("token", "The token that discovery gives.", _TEXT, required=True),
    Parameter("partition", "The partition's id.", {"type": "integer", "minimum": 0, "maximum": 32767}, required=True),
    Parameter(
        "cursor", f"A cursor, `_first` or `_last`. Only with `{EVENT_STREAM}` it may be missing: `_last`.", _CURSOR
    ),
    Parameter("until", "Stop at this cursor.", _CURSOR),
    *_SHARED,
)
PUBLISH: Final = (
    Parameter("chunk", "Commit every so many events by themselves; by default all or none.", _CHUNK),
    *(
        Parameter(
            f"ce-{name}",
            f"Of a CloudEvent in binary mode: its {name}; likewise ce-subject and so on.",
            _TEXT,
            place="header",
        )
        for name in ("specversion", "id", "source", "type")
    ),
)


_KEPT_CURSOR: Final = {"type": "string", "description": "To be kept and handed back as it is.", "pattern": "^[!-~]+$"}
_EVENT: Final = {"type": "object", "description": "The event: any JSON object, as its event type has it."}
_HEADERS: Final = {
    "type": "object",
    "description": f"At most {HEADERS_BYTES_MAX} bytes as JSON.",
    "additionalProperties": _TEXT,
}
_DISCOVERY: Final = object_of(
    "token partitions exactlyOnce",
    token=_TEXT,
    partitions=list_of(object_of("id", id=_TEXT)),
    exactlyOnce={"type": "boolean"},
)
_LINE: Final = object_of("data", data=_EVENT, headers=_HEADERS)
_DETAILS: Final = object_of(
    "kind ends received_at",
    kind=_TEXT,
    ends=list_of(_COUNT),
    received_at=list_of({"type": "integer"}),
    offset=_COUNT,
    offsets=list_of(_COUNT),
    keys=list_of({"type": ["string", "null"]}),
    kinds=list_of({"type": ["string", "null"]}),
)
_V1_PLACE: Final = {"partition": _COUNT}
_V1_PAGE: Final = list_of(
    {"oneOf": [object_of("partition data", **_V1_PLACE, data=_EVENT, headers=_HEADERS),
               object_of("partition details", **_V1_PLACE, details=_DETAILS),
               object_of("partition cursor", **_V1_PLACE, cursor=_KEPT_CURSOR)]}
)  # fmt: skip
_V2_PAGE: Final = list_of(
    {"oneOf": [_LINE, object_of("details", details=_DETAILS), object_of("cursor", cursor=_KEPT_CURSOR)]}
)
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
_ATTRIBUTE: Final = {"type": "string", "minLength": 1}
_CLOUD_EVENT: Final = object_of(
    "specversion id source type",
    specversion={"const": "1.0"},
    id=_ATTRIBUTE,
    source=_ATTRIBUTE,
    type=_ATTRIBUTE,
    subject=_ATTRIBUTE,
    time={"type": "string", "format": "date-time"},
    dataschema={"type": "string", "format": "uri"},
    datacontenttype={"type": "string", "description": "A media type of JSON."},
    partitionkey=_ATTRIBUTE,
    data=_EVENT,
) | {
    "description": "A CloudEvent 1.0 in the JSON format; further members are extension attributes.",
    "additionalProperties": {"type": ["string", "integer", "boolean"]},
}
_PUBLISHED: Final = object_of(
    "count cursors", count=_COUNT, cursors={"type": "object", "additionalProperties": _KEPT_CURSOR}
)
_ARROW: Final = {
    "type": "string",
    "contentEncoding": "binary",
    "description": f"Columns: {', '.join(ARROW_COLUMNS)}.",
}
_STREAM: Final = {
    "type": "string",
    "description": "Server-sent events: a message for each event, with the cursor after it as its id, the event's kind "
    "as its name and the event as its data. The stream lasts; the next one goes on after the last id.",
}
_CURSOR_AFTER: Final = {
    CURSOR_HEADER: "With Arrow and CloudEvents: the cursor just after the page, where it is known when the page begins."
}
_LEFT_OUT: Final = {
    LEFT_OUT_HEADER: "With Arrow and CloudEvents, of filtered pages: how many events up to the cursor it does not show."
}
_KEPT: Final = {
    "ETag": "The page's tag, if caches may keep it. With it in `If-None-Match`, an unchanged page is answered 304.",
    "Cache-Control": "For how long caches may keep the page, and which; `no-store` if it may change.",
}
NEW_LINES: Final = {NDJSON: list_of(_NEW_LINE)}
NEW_EVENTS: Final = {
    **NEW_LINES,
    STRUCTURED: _CLOUD_EVENT,
    BATCHED: list_of(_CLOUD_EVENT),
    JSON: _EVENT | {"description": "With headers `ce-…`, the data of a CloudEvent in binary mode."},
}
BATCH: Final = {JSON: list_of(_EVENT)}
PUBLISHED_BATCH: Final = answer_of(
    "All of them are stored. Where one is refused, a 422 says so with an array that has an object for each event.", {}
)._replace(
    refusal={
        JSON: list_of(
            object_of(
                "publishing_status step detail eid partition",
                publishing_status={"enum": ["failed", "aborted"]},
                step={"enum": ["none", "validating", "partitioning"]},
                detail=_TEXT,
                eid=_TEXT,
                partition={"type": "null"},
            )
        )
    }
)
DISCOVERY: Final = answer_of("What the feed consists of.", {JSON: _DISCOVERY})
PAGE_V1: Final = answer_of(
    "Without arguments what the feed consists of, else events and cursors, one a line.",
    {JSON: _DISCOVERY, NDJSON: _V1_PAGE, ARROW: _ARROW, BATCHED: list_of(_CLOUD_EVENT), EVENT_STREAM: _STREAM},
    headers=_CURSOR_AFTER | _LEFT_OUT | _KEPT,
)
PAGE_V2: Final = answer_of(
    "Events and cursors, one a line; the last is a cursor.",
    {NDJSON: _V2_PAGE, ARROW: _ARROW, BATCHED: list_of(_CLOUD_EVENT), EVENT_STREAM: _STREAM},
    headers=_CURSOR_AFTER | _LEFT_OUT | _KEPT,
)
PUBLISHED: Final = answer_of("How many, and by partition the cursor just after them.", {JSON: _PUBLISHED})


def _answer(description: str, shape: SchemaObject) -> AnswerShape:
    return AnswerShape(200, description, {JSON: shape}, {})


_ANY_NUMBER: Final = {"type": "integer", "minimum": -NUMBER_MAX, "maximum": NUMBER_MAX}
_PLACE: Final = object_of(
    "partition offset",
    partition=_TEXT,
    offset={"type": "string", "description": "That of the last event consumed, or `BEGIN`."},
)
_PAIR: Final = {"initial_cursor": _PLACE, "final_cursor": _PLACE}
_PARTITION: Final = object_of(
    "partition oldest_available_offset newest_available_offset",
    partition=_TEXT,
    oldest_available_offset=_TEXT,
    newest_available_offset=_TEXT,
    unconsumed_events={"type": "integer", "minimum": 0},
)
_BATCH: Final = object_of("cursor", cursor=_PLACE, events=list_of({"type": "object"}, minItems=1))

IN_PATH: Final = {"partition": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,4})$"}}
PLACES: Final = {JSON: list_of(_PLACE)}
PAIRS: Final = {JSON: list_of(object_of("initial_cursor final_cursor", **_PAIR))}
SHIFTS: Final[dict[str, Any]] = {
    JSON: list_of(object_of("partition offset", **_PLACE["properties"], shift={"type": "integer", "default": 0}))
}

PARTITIONS: Final = _answer("Each with its first and its last offset.", list_of(_PARTITION))
PARTITION: Final = _answer("Its first and its last offset.", _PARTITION)
CURSORS: Final = _answer("The cursors.", list_of(_PLACE))
DISTANCES: Final = _answer(
    "The pairs with their distances, less than 0 where the final cursor is the earlier one.",
    list_of(object_of("initial_cursor final_cursor distance", **_PAIR, distance={"type": "integer"})),
)
STREAM: Final = AnswerShape(
    200,
    "Batches, one a line, for as long as the stream lasts; one without events is a keep-alive.",
    {MEDIA_TYPE: list_of(_BATCH)},
    {},
)

OF_PARTITIONS: Final = (Parameter("cursors", "A JSON array of cursors: count the events after each of them.", _TEXT),)
OF_PARTITION: Final = (Parameter("consumed_offset", "An offset, or `BEGIN`: count the events after it.", _TEXT),)
OF_TIME: Final = (
    Parameter("at", "A time with a zone, to the microsecond.", {**_TEXT, "format": "date-time"}, required=True),
)
OF_STREAM: Final = (
    Parameter(
        HEADER,
        "A JSON array of cursors: their partitions are read, from there. Without it all are, from where they end.",
        _TEXT,
        place="header",
    ),
    Parameter("batch_limit", f"How many events make a batch, at least 1: {BATCH_LIMIT} by default.", _ANY_NUMBER),
    Parameter(
        "stream_limit",
        "The stream ends after so many events, at least batch_limit; 0, the default: it does not.",
        _ANY_NUMBER,
    ),
    Parameter(
        "batch_flush_timeout",
        f"So many seconds after a partition has last sent anything it sends what it has: {FLUSH_TIMEOUT} by default, "
        "and for 0.",
        _ANY_NUMBER,
    ),
    Parameter(
        "stream_timeout",
        f"The stream ends after so many seconds, from batch_flush_timeout to {STREAM_TIMEOUT_MAX}; by default, and "
        "for all that are less than 1 or more than that, after about an hour.",
        _ANY_NUMBER,
    ),
    Parameter(
        "stream_keep_alive_limit",
        "The stream ends after so many keep-alives in a row of every partition; 0, the default: it does not.",
        _ANY_NUMBER,
    ),
)

_STRING: Final = {"type": "string"}
_OFFSET: Final = {"type": "integer", "minimum": 0}
OF_COLD_FILES: Final = (
    Parameter("partition", "The partition.", {"type": "integer", "minimum": 0, "maximum": 32767}, required=True),
    Parameter("offset", "The first offset that is wanted; by default 0.", _OFFSET | {"maximum": 10**18 - 1}),
)
COLD_FILES: Final = AnswerShape(
    200,
    "The first 100 files that have them, in order.",
    {
        JSON: object_of(
            "location tier epoch items",
            location={"type": ["string", "null"], "description": "The URL of the cold tier, without credentials."},
            tier={"type": ["string", "null"]},
            epoch=_OFFSET,
            items=list_of(
                object_of(
                    "path start stop events data_bytes file_bytes received_from received_to digest",
                    path=_STRING,
                    start=_OFFSET,
                    stop=_OFFSET,
                    events=_OFFSET,
                    data_bytes=_OFFSET,
                    file_bytes=_OFFSET,
                    received_from={"type": "string", "format": "date-time"},
                    received_to={"type": "string", "format": "date-time"},
                    digest={"type": "string", "description": "SHA-256 of all columns, in hexadecimal."},
                )
            ),
        )
    },
    {},
)
NEW_ERASURE: Final = {
    JSON: {
        **object_of("key", key={"type": "string", "maxLength": KEY_CHARS_MAX, "description": "The key of the events."}),
        "additionalProperties": False,
    }
}
_COUNTED: Final = {"type": "integer", "minimum": 0}
_ERASURE: Final = object_of(
    "id event_type key_sha256 state requested_by requested_at finished_at waits_for partitions erased",
    id=_STRING,
    event_type=_STRING,
    key_sha256={"type": "string", "description": "The digest of the key, in hexadecimal."},
    state={"enum": ["requested", "finished"]},
    requested_by={"type": ["string", "null"]},
    requested_at={"type": "string", "format": "date-time"},
    finished_at={"type": ["string", "null"]},
    waits_for={
        "type": ["string", "null"],
        "description": "For what it waits, as the hub that answers has last found; null: for nothing.",
    },
    partitions=list_of(
        object_of("partition before_offset", partition=_STRING, before_offset={"type": "integer", "minimum": 0})
    ),
    erased=object_of(
        "events parked_keys rejected dead_letters",
        events=_COUNTED,
        parked_keys=_COUNTED,
        rejected=_COUNTED,
        dead_letters=_COUNTED,
    ),
)
ERASURE_BEGUN: Final = AnswerShape(202, "It is recorded, and begins.", {JSON: _ERASURE}, {})
ERASURE: Final = AnswerShape(200, "What was erased so far.", {JSON: _ERASURE}, {})
ERASURES: Final = AnswerShape(
    200, "The 100 newest, newest first.", {JSON: object_of("items", items=list_of(_ERASURE))}, {}
)
