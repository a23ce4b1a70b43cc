"""The shapes of partitions, cursors and streams, and what their routes take, for the description of the interface."""

from typing import Any, Final

from penstock.server.operation import Answer, Parameter, Schema, list_of, object_of
from penstock.server.shapes import JSON
from penstock.wire.nakadi_cursors import HEADER
from penstock.wire.nakadi_stream import BATCH_LIMIT, FLUSH_SECONDS, MEDIA_TYPE, NUMBER_MAX, TIMEOUT_SECONDS_MAX


def _answer(description: str, shape: Schema) -> Answer:
    return Answer(200, description, {JSON: shape}, {})


_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer", "minimum": -NUMBER_MAX, "maximum": NUMBER_MAX}
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
STREAM: Final = Answer(
    200,
    "Batches, one a line, for as long as the stream lasts; one without events is a keep-alive.",
    {MEDIA_TYPE: list_of(_BATCH)},
    {},
)

OF_PARTITIONS: Final = (
    Parameter("cursors", "A JSON array of cursors: of their partitions it is told how many events come after.", _TEXT),
)
OF_PARTITION: Final = (
    Parameter("consumed_offset", "An offset, or `BEGIN`: it is told how many events come after it.", _TEXT),
)
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
    Parameter("batch_limit", f"How many events make a batch, at least 1: {BATCH_LIMIT} by default.", _NUMBER),
    Parameter(
        "stream_limit",
        "The stream ends after so many events, at least batch_limit; 0, the default: it does not.",
        _NUMBER,
    ),
    Parameter(
        "batch_flush_timeout",
        f"So many seconds after a partition has last sent anything it sends what it has: {FLUSH_SECONDS} by default, "
        "and for 0.",
        _NUMBER,
    ),
    Parameter(
        "stream_timeout",
        f"The stream ends after so many seconds, from batch_flush_timeout to {TIMEOUT_SECONDS_MAX}; by default, and "
        "for all that are less than 1 or more than that, after about an hour.",
        _NUMBER,
    ),
    Parameter(
        "stream_keep_alive_limit",
        "The stream ends after so many keep-alives in a row of every partition; 0, the default: it does not.",
        _NUMBER,
    ),
)
