"""OpenAPI schemas and parameters of event types and their schemas."""

from typing import Final, get_args

from penstock.core.events.event import EVENT_BYTES_MAX
from penstock.core.groups.groups import KINDS
from penstock.core.registry.definition import (
    AUDIENCES,
    PENSTOCK,
    Category,
    CleanupPolicy,
    Evolution,
    Mode,
    PartitionStrategy,
)
from penstock.server.openapi.operation import EVENT_TYPE_NAME, JSON, Parameter, answer_of, list_of, object_of
from penstock.wire.log.nakadi import SCHEMAS_MAX

_STRING: Final = {"type": "string"}
_TIME: Final = {"type": "string", "format": "date-time"}
_COUNT: Final = {"type": "integer", "minimum": 0}
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
NEW_EVENT_TYPE: Final = {JSON: _EVENT_TYPE}
COUNT: Final = {JSON: object_of("partition_count", partition_count=_EVENT_TYPE["properties"]["partition_count"])}
NEW_SCHEMA: Final = {JSON: _SCHEMA_GIVEN}
COMPARED: Final = {JSON: object_of("schema", type=_STRING, schema=_STRING)}
CHANGED: Final = answer_of("It is so from now on.", {})
DONE: Final = answer_of("It is done.", {}, 204)
TAKEN: Final = answer_of("It would be taken; nothing is done.", {}, 204)
SCHEMAS: Final = answer_of(
    "Newest first, and where the pages before and after are.",
    {JSON: object_of("items _links", items=list_of(_SCHEMA_SHOWN), _links={"type": "object"})},
)
SCHEMA: Final = answer_of("That version.", {JSON: _SCHEMA_SHOWN})
ADDED: Final = answer_of(
    "With `fetch` the version that says the same; else there is no body, and the event type has it.",
    {JSON: _SCHEMA_SHOWN},
)
COMPARISON: Final = answer_of(
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
CREATED: Final = answer_of("It exists now.", {}, 201)
DELETED: Final = answer_of("It is gone, with all its events.", {})
EVENT_TYPES: Final = answer_of("All event types.", {JSON: list_of(_EVENT_TYPE_SHOWN)})
EVENT_TYPE: Final = answer_of(
    "As its owner gave it, with the defaults filled in.",
    {JSON: _EVENT_TYPE_SHOWN},
    headers={"Link": "Where its `producers` and its `consumers` are listed (RFC 8288)."},
)

EVENT_TYPE_PRODUCERS: Final = answer_of(
    "Who has published, and when last, to within minutes; nobody where callers are not authenticated.",
    {JSON: object_of("items", items=list_of(object_of("caller last_seen", caller=_STRING, last_seen=_TIME)))},
)
_MAYBE_TEXT: Final = {"type": ["string", "null"]}
_CONSUMER: Final = object_of(
    "group kind owning_application owner last_commit",
    group=_STRING,
    kind={"enum": list(KINDS)},
    owning_application={**_MAYBE_TEXT, "description": "Of a subscription."},
    owner={**_MAYBE_TEXT, "description": "The caller to whom it belongs; null: nobody."},
    last_commit={"type": ["string", "null"], "format": "date-time", "description": "null: there is no position yet."},
)
EVENT_TYPE_CONSUMERS: Final = answer_of(
    "Its consumer groups, sorted by name; 1000 at most.", {JSON: object_of("items", items=list_of(_CONSUMER))}
)
ASYNCAPI: Final = answer_of(
    "An AsyncAPI 3.0 document of the event types that the caller may see, and of what it may do with them.",
    {JSON: object_of("asyncapi info channels operations")},
    headers={"ETag": "With it in `If-None-Match`, an unchanged document is answered 304."},
)

OF_LIST: Final = (
    Parameter("owning_application", "Only those of this owner.", _STRING),
    Parameter(
        "writer",
        "Only those that this one may write: a data type, a colon, a value.",
        {"type": "string", "pattern": "^[^:]+:.+$"},
    ),
)
OF_ASYNCAPI: Final = (Parameter("event_type", "Describe this event type alone. Repeatable.", list_of(EVENT_TYPE_NAME)),)
OF_REPLACE: Final = (
    Parameter(
        "allow_reordering",
        "Accept that events of one key lose their order, by another `partition_strategy` or other key fields.",
        {"type": "boolean", "default": False},
    ),
)
OF_SCHEMAS: Final = (
    Parameter("limit", "How many versions at most.", {"type": "integer", "minimum": 1, "maximum": SCHEMAS_MAX}),
    Parameter("offset", "How many of the newest to leave out.", _COUNT),
)
OF_ADD: Final = (
    Parameter("fetch", "Only look for the version that says the same.", {"type": "boolean", "default": False}),
)
