"""OpenAPI schemas and parameters of settings, storages and timelines."""

from collections.abc import Mapping
from typing import Final

from penstock.core.access import LISTS
from penstock.core.registry.definition import LIMIT_MAX
from penstock.hub.admin.settings import BLOCK_KINDS, FEATURES, NAME_CHARS_MAX
from penstock.server.openapi.operation import EVENT_TYPE_NAME, JSON, AnswerShape, SchemaObject, list_of, object_of
from penstock.wire.problem import MEDIA_TYPE as PROBLEM

_STRING: Final = {"type": "string"}
_TIME: Final = {"type": "string", "format": "date-time"}
_ATTRIBUTE: Final = object_of("data_type value", data_type=_STRING, value=_STRING)
_NAMES: Final = object_of("event_types apps", event_types=list_of(_STRING), apps=list_of(_STRING))
_FEATURE: Final = object_of("feature enabled", feature={"enum": list(FEATURES)}, enabled={"type": "boolean"})
_LIMIT: Final = {"type": ["integer", "null"], "minimum": 1, "maximum": LIMIT_MAX}
_RETENTION: Final = object_of(
    "retention_time retention_bytes",
    retention_time=_LIMIT | {"description": "The age up to which events are kept, in milliseconds; null: no limit."},
    retention_bytes=_LIMIT | {"description": "The size of an event type's data, in bytes; null: no limit."},
)
_STORAGE: Final = object_of("id storage_type default", id=_STRING, storage_type=_STRING, default={"type": "boolean"})
_TIMELINE: Final = object_of(
    "id event_type order storage_id topic created_at switched_at",
    id={"type": "string", "format": "uuid"},
    event_type=EVENT_TYPE_NAME,
    order={"type": "integer", "minimum": 1, "description": "The feed's epoch."},
    storage_id=_STRING,
    topic=_STRING,
    created_at=_TIME,
    switched_at=_TIME,
    cleaned_up_at={"type": "null"},
    latest_position={"type": "null"},
)
_REFUSED: Final = {PROBLEM: {"$ref": "#/components/schemas/Problem"}}
_PRINTABLE: Final = "^[ -.0-~]+$"

BLOCK: Final[Mapping[str, SchemaObject]] = {
    "type": {"enum": list(BLOCK_KINDS)},
    "name": {"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX, "pattern": _PRINTABLE},
}
"""What the path of a block holds."""
ID: Final[Mapping[str, SchemaObject]] = {"id": {"type": "string", "minLength": 1, "pattern": _PRINTABLE}}

NEW_ADMINISTRATORS: Final = {JSON: object_of(" ".join(LISTS), **dict.fromkeys(LISTS, list_of(_ATTRIBUTE, minItems=1)))}
_REPLICAS: Final = object_of(
    "readers",
    readers={
        "type": ["array", "null"],
        "items": _ATTRIBUTE,
        "description": "Callers whose reads may go to replicas of the database; null: all callers.",
    },
)
NEW_REPLICA_READERS: Final = {JSON: {**_REPLICAS, "additionalProperties": False}}
NEW_RETENTION: Final = {JSON: {**_RETENTION, "additionalProperties": False}}
SWITCH: Final = {JSON: {**_FEATURE, "additionalProperties": False}}

ADMINISTRATORS: Final = AnswerShape(
    200, "The three lists.", {JSON: object_of(" ".join(LISTS), **dict.fromkeys(LISTS, list_of(_ATTRIBUTE)))}, {}
)
REPLACED: Final = AnswerShape(200, "They are in force.", {}, {})
BLACKLIST: Final = AnswerShape(
    200, "Names, sorted.", {JSON: object_of("producers consumers", producers=_NAMES, consumers=_NAMES)}, {}
)
BLOCKED: Final = AnswerShape(204, "It is blocked.", {}, {})
UNBLOCKED: Final = AnswerShape(204, "It is not blocked.", {}, {})
ALL_FEATURES: Final = AnswerShape(200, "All features.", {JSON: object_of("items", items=list_of(_FEATURE))}, {})
SWITCHED: Final = AnswerShape(204, "It is so.", {}, {})
REPLICA_READERS: Final = AnswerShape(200, "Who reads from replicas.", {JSON: _REPLICAS}, {})
RETENTION: Final = AnswerShape(200, "The retention of event types that set none.", {JSON: _RETENTION}, {})
STORAGES: Final = AnswerShape(200, "The one storage.", {JSON: list_of(_STORAGE)}, {})
STORAGE: Final = AnswerShape(200, "The one storage.", {JSON: _STORAGE}, {})
IN_USE: Final = AnswerShape(403, "It cannot be deleted.", _REFUSED, {})
TIMELINES: Final = AnswerShape(200, "The one timeline.", {JSON: list_of(_TIMELINE)}, {})
NO_OTHER: Final = AnswerShape(422, "There is one, and none can be added.", _REFUSED, {})
STRATEGIES: Final = AnswerShape(200, "Their names.", {JSON: list_of(_STRING)}, {})
