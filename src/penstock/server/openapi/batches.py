"""OpenAPI schemas and parameters of batches."""

from typing import Any, Final

from penstock.server.openapi.log import NEW_LINES
from penstock.server.openapi.operation import JSON, AnswerShape, Parameter, list_of, object_of
from penstock.wire import batches as wire
from penstock.wire.producers import GROUP_PATTERN, NUMBER_MAX

_NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": NUMBER_MAX}
_DIGITS: Final = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,15})$"}
_GROUP: Final = {"type": "string", "pattern": f"^{GROUP_PATTERN}$"}
_UPLOAD: Final = {"type": "string", "pattern": f"^{wire.UPLOAD_PATTERN}$"}
_DIGEST: Final = {"type": "string", "pattern": f"^{wire.DIGEST_PATTERN}$"}
_QUERY: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": wire.QUERY_CHARS_MAX,
    "description": "Who publishes the group's batches, such as the id of a Spark query.",
}
_TIME: Final = {"type": "string", "format": "date-time"}
_BATCH: Final = object_of(
    "producer_group batch query state events rejected offsets begun_at updated_at",
    producer_group=_GROUP,
    batch=_NUMBER,
    query=_QUERY,
    state={"enum": ["published", "publishing"]},
    events={**_NUMBER, "description": "How many are in the feed."},
    rejected={**_NUMBER, "description": "How many lines were no valid events, and stand among the rejected."},
    offsets={
        "type": "object",
        "description": "By partition: ranges, each its first and its last offset.",
        "additionalProperties": list_of(list_of(_NUMBER, minItems=2, maxItems=2)),
    },
    begun_at=_TIME,
    updated_at=_TIME,
)
_REJECTED: Final = object_of("line reason", line=_NUMBER, reason={"type": "string"})
OPEN: Final[dict[str, Any]] = {
    JSON: object_of("producer_group batch query", producer_group=_GROUP, batch=_NUMBER, query=_QUERY)
}
OPENED: Final = AnswerShape(
    201,
    "The upload takes chunks. A batch that was begun already is returned with status 200.",
    {
        JSON: {
            "oneOf": [
                object_of("upload expires_after_seconds", upload=_UPLOAD, expires_after_seconds={"type": "number"}),
                _BATCH,
            ]
        }
    },
    {},
)
LINES: Final = NEW_LINES
CHUNK: Final = AnswerShape(
    200,
    "The chunk is kept.",
    {
        JSON: object_of(
            "chunk events digest rejected",
            chunk=_NUMBER,
            events={**_NUMBER, "description": "How many of its lines are valid events."},
            digest={**_DIGEST, "description": "BLAKE2b of the body, of 16 bytes."},
            rejected=list_of(_REJECTED),
        )
    },
    {},
)
DROPPED: Final = AnswerShape(204, "It is forgotten.", {}, {})
PUBLISH: Final[dict[str, Any]] = {
    JSON: object_of(
        "query uploads",
        query=_QUERY,
        uploads=list_of(
            object_of(
                "upload chunks events digest",
                upload=_UPLOAD,
                chunks=_NUMBER,
                events=_NUMBER,
                digest={**_DIGEST, "description": "BLAKE2b of its chunks' digests one after the other, of 16 bytes."},
            ),
            maxItems=wire.UPLOADS_MAX,
        ),
    )
}
BATCH: Final = AnswerShape(200, "The batch.", {JSON: _BATCH}, {})
BATCHES: Final = AnswerShape(200, "The newest first.", {JSON: object_of("items", items=list_of(_BATCH))}, {})
FORGOTTEN: Final = AnswerShape(200, "How many they were.", {JSON: object_of("forgotten", forgotten=_NUMBER)}, {})
OF_CHUNK: Final = (
    Parameter(
        "reject_invalid",
        "Set lines apart that are no valid events; without it, the first one refuses the chunk.",
        {"type": "boolean", "default": False},
    ),
)
OF_LIST: Final = (
    Parameter("limit", "How many, at most 100; 20 by default.", {"type": "integer", "minimum": 1, "maximum": 100}),
)
IN_PATH: Final = {"group": _GROUP, "batch": _DIGITS, "upload": {"type": "string"}, "chunk": _DIGITS}
