"""OpenAPI schemas and parameters of idempotent producers."""

from typing import Any, Final

from penstock.server.openapi.log import BATCH, NEW_LINES
from penstock.server.openapi.operation import JSON, AnswerShape, Parameter, SchemaObject, list_of, object_of
from penstock.wire import producers as wire

_NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": wire.NUMBER_MAX}
_MAYBE: Final = {"type": ["integer", "null"], "minimum": 0}
_TIME: Final = {"type": "string", "format": "date-time"}
_GROUP: Final = {"type": "string", "pattern": f"^{wire.GROUP_PATTERN}$"}
_OFFSETS: Final = object_of("first last", first=_NUMBER, last=_NUMBER)
_DIGITS: Final = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,15})$"}
_OVERLAP: Final = {"enum": ["reject", "trim"], "default": "reject"}
_DEADLINE: Final = {"type": "integer", "minimum": 0, "maximum": wire.DEADLINE_MS_MAX}


def _header(name: str, description: str, schema: SchemaObject) -> Parameter:
    return Parameter(name, description, schema, place="header")


OF_PUBLISH: Final = (
    _header(wire.GROUP, "Who publishes; with the next two, each event is stored at most once.", _GROUP),
    _header(wire.EPOCH, "The incarnation of the producer: a higher epoch fences all lower ones.", _DIGITS),
    _header(wire.SEQUENCE, "The number of the first event.", _DIGITS),
    _header(wire.OVERLAP, "What to do where only the beginning of the batch is stored.", _OVERLAP),
    _header(wire.DEADLINE, "What has not been begun in so many milliseconds is not begun.", _DEADLINE),
)
_PRODUCER: Final = object_of(
    "group epoch sequence", group=_GROUP, epoch=_NUMBER, sequence=_NUMBER, overlap=_OVERLAP, deadline_ms=_DEADLINE
)
_ENVELOPE: Final = object_of("producer events", producer=_PRODUCER, events=BATCH[JSON])
PUBLISHED_BODY: Final = {**BATCH, **NEW_LINES, wire.ENVELOPE: _ENVELOPE}
_RESULT: Final = object_of(
    "",
    outcome={"enum": ["appended", "duplicate", "trimmed"]},
    epoch=_NUMBER,
    sequence=object_of("first last next", first=_NUMBER, last=_NUMBER, next=_NUMBER),
    offsets=_OFFSETS,
    ranges={**list_of(_OFFSETS), "description": "In place of `offsets` where they lie in several pieces."},
    count={"type": "integer", "description": "Without the headers: how many events were stored."},
    cursors={"type": "object", "description": "Without the headers: the cursor just after them."},
)
PUBLISHED: Final = AnswerShape(
    200,
    "All of them are stored, each once.",
    {JSON: _RESULT},
    {wire.EPOCH: "The epoch.", wire.NEXT: "The number of the producer's next event."},
)
_SHOWN: Final = object_of(
    "producer_group partition epoch next_sequence",
    producer_group=_GROUP,
    partition=_NUMBER,
    epoch=_NUMBER,
    last_published_sequence=_MAYBE,
    next_sequence=_MAYBE,
    last_offset=_MAYBE,
    previous={
        "oneOf": [
            object_of("epoch next_sequence last_offset", epoch=_NUMBER, next_sequence=_NUMBER, last_offset=_MAYBE),
            {"type": "null"},
        ],
        "description": "What the epoch before has ended with.",
    },
    window={
        "oneOf": [object_of("batches oldest_sequence", batches=_NUMBER, oldest_sequence=_MAYBE), {"type": "null"}],
        "description": "How far back the batches of this epoch are known; null in lists and after claims.",
    },
    pinned={"type": "boolean"},
    expired={"type": "boolean"},
    updated_at=_TIME,
    expires_at={"oneOf": [_TIME, {"type": "null"}]},
    expires_after_seconds={"type": "number"},
    sequence_modulus={"type": "integer"},
)
_TAG: Final = {"ETag": "The epoch and the number of the next event."}
PRODUCER: Final = AnswerShape(200, "How far it has come.", {JSON: _SHOWN}, _TAG)
CLAIMED: Final = AnswerShape(200, "The epoch is granted.", {JSON: _SHOWN}, _TAG)
ALLOCATED: Final = AnswerShape(201, "The epoch is granted.", {JSON: _SHOWN}, _TAG)
PRODUCERS: Final = AnswerShape(
    200, "A page of them.", {JSON: object_of("items _links", items=list_of(_SHOWN), _links={"type": "object"})}, {}
)
FORGOTTEN: Final = AnswerShape(204, "Batches of its epoch are refused from now on.", {}, {})
FOUND: Final = AnswerShape(
    200,
    "Whether the whole batch is stored (null: no longer known), and the offsets of its stored events.",
    {
        JSON: object_of(
            "epoch stored ranges", epoch=_NUMBER, stored={"type": ["boolean", "null"]}, ranges=list_of(_OFFSETS)
        )
    },
    {},
)
CLAIM: Final[dict[str, Any]] = {
    JSON: object_of(
        "",
        epoch={"oneOf": [_NUMBER, {"const": "next"}], "default": "next"},
        starting_sequence={**_NUMBER, "default": 0},
        claim_id={**_GROUP, "description": "By which a claim that is made again is known."},
        if_epoch={**_NUMBER, "description": "Only if this is still the current epoch."},
        pinned={"type": ["boolean", "null"], "description": "Whether it never expires; as it is unless this is said."},
    )
}
OF_LIST: Final = (
    Parameter("after", "Only groups that come after this one.", _GROUP),
    Parameter("limit", f"How many, at most {wire.PRODUCERS_MAX}; 100 by default.", {"type": "integer", "minimum": 1}),
)
OF_SEQUENCE: Final = (
    Parameter("epoch", "Of which epoch; the current one by default.", _DIGITS),
    Parameter("count", "How many events the batch has; 1 by default.", {"type": "integer", "minimum": 1}),
)
IN_PATH: Final = {
    "partition": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,8})$"},
    "group": _GROUP,
    "first": _DIGITS,
}
