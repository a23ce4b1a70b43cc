"""OpenAPI schemas and parameters of the outbox."""

from typing import Final

from penstock.server.openapi.operation import JSON, Parameter, answer_of, list_of, object_of

_STRING: Final = {"type": "string"}
_MAYBE_STRING: Final = {"type": ["string", "null"]}
_TIME: Final = {"type": "string", "format": "date-time"}
_MAYBE_TIME: Final = {"type": ["string", "null"], "format": "date-time"}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_ID: Final = {"type": "integer", "minimum": 1, "maximum": 10**18 - 1}
_ROW: Final = object_of(
    "id event_type data key headers partition created_at rejected_at reason",
    id=_NUMBER,
    event_type=_STRING,
    data=_STRING,
    key=_MAYBE_STRING,
    headers=_MAYBE_STRING,
    partition={"type": ["integer", "string", "null"]},
    created_at=_STRING,
    rejected_at=_STRING,
    reason=_STRING,
)
_CHOICE: Final = (
    Parameter("id", "Rows by their ids. Repeatable.", list_of(_ID)),
    Parameter("event_type", "Rows of this event type.", {"type": "string", "minLength": 1, "pattern": "^[ -~]+$"}),
)
_ALL: Final = Parameter("all", "All rows; without id and event_type.", {"type": "boolean"})

OUTBOX: Final = answer_of(
    "How many rows wait, and how many were rejected, each counted up to 10 001.",
    {
        JSON: object_of(
            "waiting oldest_at event_types rejected",
            waiting=_NUMBER,
            oldest_at={**_MAYBE_TIME, "description": "When the oldest waiting row was inserted."},
            event_types=list_of(_STRING, description="Those of which rows wait."),
            rejected=_NUMBER,
        )
    },
)
OF_LIST: Final = (
    *_CHOICE,
    Parameter("oldest", "The oldest rows first, not the newest.", {"type": "boolean"}),
    Parameter("limit", "Maximum number of rows.", {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 20}),
    Parameter("after", "The rows behind the one of this id.", _ID),
)
REJECTED: Final = answer_of(
    "Rows that could not be published.",
    {JSON: object_of("items _links", items=list_of(_ROW), _links={"type": "object"})},
)
OF_CHANGE: Final = (*_CHOICE, _ALL)
RETRIED: Final = answer_of("They wait in the outbox again.", {JSON: object_of("retried", retried=_NUMBER)})
DELETED: Final = answer_of("They are gone.", {JSON: object_of("deleted", deleted=_NUMBER)})
