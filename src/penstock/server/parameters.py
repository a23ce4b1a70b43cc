"""What the parameters of the feeds' routes mean, for the description of the interface."""

from typing import Any, Final

from penstock.core.log.cursor import VIEW_PARTITIONS_MAX
from penstock.server.operation import Parameter
from penstock.wire.nakadi import SCHEMAS_MAX
from penstock.wire.zeroeventhub import CHUNK_EVENTS_MAX, CURSORSET_CHARS_MAX, PAGE_SIZE, PAGE_SIZE_MAX, WAIT_SECONDS_MAX

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
    Parameter("event-types", "Only these kinds, separated by `;`.", _TEXT),
    Parameter("skip-event-types", "All but these kinds, separated by `;`.", _TEXT),
)
V1: Final = (
    Parameter("n", "How many partitions you want to see: the feed's number, a divisor or a multiple of it.", _NUMBER),
    Parameter("cursor0", "A cursor for partition 0, `_first` or `_last`; likewise cursor1 and so on.", _CURSOR),
    Parameter("until0", "Stop at this cursor of partition 0; likewise until1 and so on.", _CURSOR),
    Parameter("cursorset", "Your name, under which the cursors of this request are kept.", _NAME),
    Parameter("resume", "Partitions to go on with where the cursor set stands, separated by commas.", _TEXT),
    Parameter("store_cursor", "1 together with `pagesizehint=0`: only keep the cursors.", {"enum": [0, 1]}),
    *_SHARED,
)
V2: Final = (
    Parameter("token", "The token that discovery gives.", _TEXT, required=True),
    Parameter("partition", "The partition's id.", {"type": "integer", "minimum": 0, "maximum": 32767}, required=True),
    Parameter("cursor", "A cursor, `_first` or `_last`.", _CURSOR, required=True),
    Parameter("until", "Stop at this cursor.", _CURSOR),
    *_SHARED,
)
PUBLISH: Final = (Parameter("chunk", "Commit every so many events by themselves; by default all or none.", _CHUNK),)
EVENT_TYPES: Final = (
    Parameter("owning_application", "Only those of this owner.", _TEXT),
    Parameter(
        "writer",
        "Only those that this one may write: a data type, a colon, a value.",
        {"type": "string", "pattern": "^[^:]+:.+$"},
    ),
)
REORDERING: Final = (
    Parameter(
        "allow_reordering",
        "Accept that events of one key lose their order, by another `partition_strategy` or other key fields.",
        {"type": "boolean", "default": False},
    ),
)
SCHEMAS: Final = (
    Parameter("limit", "How many versions at most.", {"type": "integer", "minimum": 1, "maximum": SCHEMAS_MAX}),
    Parameter("offset", "How many of the newest to leave out.", _COUNT),
)
FETCH: Final = (
    Parameter("fetch", "Only look for the version that says the same.", {"type": "boolean", "default": False}),
)
