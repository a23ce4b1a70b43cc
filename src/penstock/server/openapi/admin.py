"""OpenAPI schemas and parameters of settings, storages and timelines."""

from collections.abc import Mapping
from typing import Final

from penstock.core.access import CALLER_CHARS_MAX, LISTS
from penstock.core.registry.definition import LIMIT_MAX
from penstock.hub.admin.settings import BLOCK_KINDS, FEATURES, NAME_CHARS_MAX
from penstock.server.openapi.operation import (
    EVENT_TYPE_NAME,
    JSON,
    AnswerShape,
    Parameter,
    SchemaObject,
    list_of,
    object_of,
)
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

_FLAG: Final = {"type": "boolean"}
_TOKEN: Final[dict[str, SchemaObject]] = {
    "id": _STRING,
    "caller": {**_STRING, "description": "TYPE:NAME, such as service:billing."},
    "created_at": _TIME,
    "expires_at": {"type": ["string", "null"], "format": "date-time", "description": "null: never."},
    "used_at": {"type": ["string", "null"], "format": "date-time", "description": "Within a minute; null: never."},
}
_TOKEN_NAMES: Final = " ".join(_TOKEN)
NEW_TOKEN: Final = {
    JSON: object_of(
        "name",
        name={"type": "string", "minLength": 1, "maxLength": CALLER_CHARS_MAX, "description": "Without a type."},
        type={"enum": ["service", "user"], "default": "service"},
        expires_in_seconds={"type": ["number", "null"], "minimum": 1, "description": "null: it never expires."},
        admin={"type": "boolean", "description": "Make the caller an administrator of the hub, too."},
    )
    | {"additionalProperties": False}
}
TOKEN_ROTATION: Final = {
    JSON: object_of(
        "",
        overlap_seconds={"type": "number", "minimum": 0, "default": 86_400, "description": "The old one stays valid."},
    )
    | {"additionalProperties": False}
}
TOKENS: Final = AnswerShape(
    200,
    "All tokens, without secrets.",
    {JSON: object_of("items", items=list_of(object_of(_TOKEN_NAMES, **_TOKEN)))},
    {},
)
TOKEN_CREATED: Final = AnswerShape(
    201,
    "The token with its secret, which is shown this once.",
    {JSON: object_of(f"{_TOKEN_NAMES} token", **_TOKEN, token=_STRING)},
    {},
)
TOKEN_REVOKED: Final = AnswerShape(
    200,
    "It is deleted.",
    {
        JSON: object_of(
            "revoked caller lists valid_tokens",
            revoked=_STRING,
            caller=_STRING,
            lists=list_of(_STRING, description="The hub's lists that the caller is still on."),
            valid_tokens={"type": "integer", "minimum": 0, "description": "Valid tokens that the caller still has."},
        )
    },
    {},
)
_RIGHTS: Final = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "boolean"}},
}
OF_CALLER: Final = tuple(
    Parameter(name, f"Show the rights to {says}. Repeatable.", list_of(_STRING))
    for name, says in (
        ("event_type", "this event type"),
        ("subscription", "this subscription"),
        ("group", "this consumer group"),
    )
)
CALLER: Final = AnswerShape(
    200,
    "Who sends the request, and what it may do.",
    {
        JSON: object_of(
            "type name method hub event_types subscriptions groups",
            type=_STRING,
            name=_STRING,
            method={"type": ["string", "null"], "description": "How it was identified; null: nobody is asked."},
            hub=object_of(
                "administer monitor create delete issue_tokens",
                administer=_FLAG,
                monitor=_FLAG,
                create=_FLAG,
                delete=_FLAG,
                issue_tokens=_FLAG,
            ),
            event_types=_RIGHTS,
            subscriptions=_RIGHTS,
            groups=_RIGHTS,
        )
    },
    {},
)

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
