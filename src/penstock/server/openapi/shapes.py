"""OpenAPI schemas of bodies and answers that several capabilities share, and of feeds and event types.

A body of lines is described as an array of its lines, as OpenAPI does with sequential media types.
"""

from collections.abc import Mapping
from typing import Final, get_args

from penstock.core.events.event import EVENT_BYTES_MAX, HEADERS_BYTES_MAX, KEY_CHARS_MAX
from penstock.core.registry.definition import (
    AUDIENCES,
    NAME_CHARS_MAX,
    NAME_PATTERN,
    PENSTOCK,
    Category,
    CleanupPolicy,
    Evolution,
    Mode,
    PartitionStrategy,
)
from penstock.server.openapi.operation import AnswerShape, SchemaObject, list_of, object_of
from penstock.wire.log.feedapi import ARROW, ARROW_COLUMNS, CURSOR_HEADER, LEFT_OUT_HEADER
from penstock.wire.log.zeroeventhub import NDJSON

JSON: Final = "application/json"
TEXT: Final = "text/plain"
HTML: Final = "text/html"


def _answer(
    description: str, content: Mapping[str, SchemaObject], status: int = 200, headers: Mapping[str, str] | None = None
) -> AnswerShape:
    return AnswerShape(status, description, content, headers or {})


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
EVENT_TYPE_NAME: Final = {
    "type": "string",
    "maxLength": NAME_CHARS_MAX,
    "pattern": f"^{NAME_PATTERN}$",
}
IN_PATH: Final[Mapping[str, SchemaObject]] = {
    "event_type": EVENT_TYPE_NAME,
    "version": {"type": "string", "pattern": r"^([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}|latest)$"},
}
"""What stands in paths, by its name there."""
_TEXTS: Final = list_of({"type": "string", "minLength": 1})
_SCHEMA_GIVEN: Final = object_of("type schema", type={"enum": ["json_schema"]}, schema=_STRING)
_SCHEMA_SHOWN: Final = object_of(
    "type schema version created_at", **_SCHEMA_GIVEN["properties"], version=_STRING, created_at=_TIME
)
_COUNTED: Final = {"type": "integer", "minimum": 1}
_ATTRIBUTES: Final = {**list_of(object_of("data_type value", data_type=_STRING, value=_STRING)), "minItems": 1}
_EVENT_TYPE: Final = object_of(
    "name owning_application category schema",
    name=EVENT_TYPE_NAME,
    owning_application=_STRING,
    category={"enum": [*get_args(Category)]},
    schema=_SCHEMA_GIVEN,
    enrichment_strategies=list_of({"enum": ["metadata_enrichment"]}),
    partition_strategy={"enum": [*get_args(PartitionStrategy)], "default": "random"},
    partition_key_fields={**_TEXTS, "description": "What `hash` goes by."},
    partition_count={"type": "integer", "minimum": 1, "maximum": PENSTOCK.partitions_max},
    max_event_bytes={
        "type": "integer",
        "minimum": 1,
        "maximum": EVENT_BYTES_MAX,
        "description": "How long a line of its feed may be that has an event, with all headers.",
    },
    ordering_key_fields=_TEXTS,
    ordering_instance_ids=_TEXTS,
    compatibility_mode={"enum": [*get_args(Mode)], "default": "forward"},
    cleanup_policy={"enum": [*get_args(CleanupPolicy)], "default": "delete"},
    default_statistic=object_of(
        "messages_per_minute message_size read_parallelism write_parallelism",
        messages_per_minute=_COUNT,
        message_size=_COUNTED,
        read_parallelism=_COUNTED,
        write_parallelism=_COUNTED,
    ),
    authorization=object_of("admins readers writers", admins=_ATTRIBUTES, readers=_ATTRIBUTES, writers=_ATTRIBUTES),
    annotations={"type": "object", "additionalProperties": _STRING},
    labels={"type": "object", "additionalProperties": _STRING},
    audience={"enum": [*AUDIENCES]},
)
_CHECKED: Final = ("name", "owning_application", "category", "partition_strategy", "partition_count")
_EVENT_TYPE_SHOWN: Final = {
    **object_of(
        " ".join([*_CHECKED, "schema", "created_at", "updated_at"]),
        **{name: _EVENT_TYPE["properties"][name] for name in _CHECKED},
        schema=_SCHEMA_SHOWN,
        created_at=_TIME,
        updated_at=_TIME,
    ),
    "description": "And whatever else its owner has said of it, as it was given.",
}
_CHANGE: Final = object_of(
    "pointer rule says level refused producers consumers",
    pointer=_STRING,
    rule=_STRING,
    says=_STRING,
    level={"enum": ["PATCH", "MINOR", "MAJOR"]},
    old={},
    new={},
    refused={"type": "boolean"},
    instead=_STRING,
    producers={"type": "boolean"},
    consumers={"type": "boolean"},
)
_DISCOVERY: Final = object_of(
    "token partitions exactlyOnce",
    token=_STRING,
    partitions=list_of(object_of("id", id=_STRING)),
    exactlyOnce={"type": "boolean"},
)
_LINE: Final = object_of("data", data=_EVENT, headers=_HEADERS)
_V1_PLACE: Final = {"partition": _COUNT}
_V1_PAGE: Final = list_of(
    {"oneOf": [object_of("partition data", **_V1_PLACE, data=_EVENT, headers=_HEADERS),
               object_of("partition cursor", **_V1_PLACE, cursor=_CURSOR)]}
)  # fmt: skip
_V2_PAGE: Final = list_of({"oneOf": [_LINE, object_of("cursor", cursor=_CURSOR)]})
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
_PUBLISHED: Final = object_of(
    "count cursors", count=_COUNT, cursors={"type": "object", "additionalProperties": _CURSOR}
)
_STATUS: Final = object_of("status", status=_STRING)
_ARROW: Final = {
    "type": "string",
    "contentEncoding": "binary",
    "description": f"Columns: {', '.join(ARROW_COLUMNS)}.",
}
_CURSOR_AFTER: Final = {
    CURSOR_HEADER: "With Arrow: the cursor just after the page, where it is known when the page begins."
}

_LEFT_OUT: Final = {
    LEFT_OUT_HEADER: "With Arrow, where the page sifts: how many events up to the cursor it does not show."
}

NEW_EVENT_TYPE: Final = {JSON: _EVENT_TYPE}
NEW_LINES: Final = {NDJSON: list_of(_NEW_LINE)}

COUNT: Final = {JSON: object_of("partition_count", partition_count=_EVENT_TYPE["properties"]["partition_count"])}
NEW_SCHEMA: Final = {JSON: _SCHEMA_GIVEN}
COMPARED: Final = {JSON: object_of("schema", type=_STRING, schema=_STRING)}
BATCH: Final = {JSON: list_of(_EVENT)}

CHANGED: Final = _answer("It is so from now on.", {})
DONE: Final = _answer("It is done.", {}, 204)
TAKEN: Final = _answer("It would be taken; nothing is done.", {}, 204)
SCHEMAS: Final = _answer(
    "Newest first, and where the pages before and after are.",
    {JSON: object_of("items _links", items=list_of(_SCHEMA_SHOWN), _links={"type": "object"})},
)
SCHEMA: Final = _answer("That version.", {JSON: _SCHEMA_SHOWN})
ADDED: Final = _answer(
    "With `fetch` the version that says the same; else there is no body, and the event type has it.",
    {JSON: _SCHEMA_SHOWN},
)
COMPARISON: Final = _answer(
    "Whether it could be given, as which version, and who can stay as they are.",
    {
        JSON: object_of(
            "compatible compatibility_mode evolution validated_against_version version producers consumers changes",
            compatible={"type": "boolean"},
            compatibility_mode=_EVENT_TYPE["properties"]["compatibility_mode"],
            evolution={"enum": [*get_args(Evolution)]},
            validated_against_version=_STRING,
            version=_STRING,
            producers={"type": "boolean"},
            consumers={"type": "boolean"},
            changes=list_of(_CHANGE),
            error=_STRING,
        )
    },
)
PUBLISHED_BATCH: Final = _answer(
    "All of them are stored. Where one is refused, a 422 says so with an array that has an object for each event.", {}
)._replace(
    refusal={
        JSON: list_of(
            object_of(
                "publishing_status step detail eid partition",
                publishing_status={"enum": ["failed", "aborted"]},
                step={"enum": ["none", "validating", "partitioning"]},
                detail=_STRING,
                eid=_STRING,
                partition={"type": "null"},
            )
        )
    }
)
CREATED: Final = _answer("It exists now.", {}, 201)
DELETED: Final = _answer("It is gone, with all its events.", {})
EVENT_TYPES: Final = _answer("All event types.", {JSON: list_of(_EVENT_TYPE_SHOWN)})
EVENT_TYPE: Final = _answer("As its owner gave it, with the defaults filled in.", {JSON: _EVENT_TYPE_SHOWN})
DISCOVERY: Final = _answer("What the feed consists of.", {JSON: _DISCOVERY})
PAGE_V1: Final = _answer(
    "Without arguments what the feed consists of, else events and cursors, one a line.",
    {JSON: _DISCOVERY, NDJSON: _V1_PAGE, ARROW: _ARROW},
    headers=_CURSOR_AFTER,
)
PAGE_V2: Final = _answer(
    "Events and cursors, one a line; the last is a cursor.",
    {NDJSON: _V2_PAGE, ARROW: _ARROW},
    headers=_CURSOR_AFTER | _LEFT_OUT,
)
PUBLISHED: Final = _answer("How many, and by partition the cursor just after them.", {JSON: _PUBLISHED})
STATUS: Final = _answer("All is well.", {JSON: _STATUS})
OK: Final = _answer("OK", {TEXT: _STRING})
INDEX: Final = _answer(
    "What answers here, and where to go on: the path of each.",
    {JSON: object_of("name version docs", name=_STRING, version=_STRING, docs=_STRING)},
)
VERSION: Final = _answer("The version.", {JSON: object_of("name version", name=_STRING, version=_STRING)})
_MEASURED: Final = {"type": "object", "additionalProperties": {"type": "object"}}
METRICS: Final = _answer(
    "In Prometheus' format, or in Dropwizard's JSON.",
    {
        TEXT: _STRING,
        JSON: object_of(
            "version gauges counters histograms meters timers",
            version=_STRING,
            **dict.fromkeys(("gauges", "counters", "histograms", "meters", "timers"), _MEASURED),
        ),
    },
)
DESCRIPTION: Final = _answer("This document.", {JSON: {"type": "object"}})
DOCS: Final = _answer("A page for a browser.", {HTML: _STRING})
