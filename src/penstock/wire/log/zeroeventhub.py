"""ZeroEventHub v1: its query, its lines, and its possible extensions.

Source: https://github.com/vippsas/zeroeventhub, and docs/decisions/feed-extensions.md where it is silent.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from operator import sub
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.events.event import EVENT_BYTES_MAX, EVENTS_MAX, PIECE_BYTES, NewEvent
from penstock.core.group_names import is_path_name
from penstock.core.log.cursor import VIEW_PARTITIONS_MAX
from penstock.core.log.details import EventDetails
from penstock.errors import BadParameter, BadPartitionCount, EventTooLarge, InvalidEvent, RequestTooLarge
from penstock.schema.json_text import explain_malformed, refuse_duplicate_keys
from penstock.wire.query import WHOLE_NUMBER_MAX, HeaderChoice, Query, make_printable, parse_headers, parse_kinds

NDJSON: Final = "application/x-ndjson"
PAGE_SIZE: Final = 1_000
PAGE_SIZE_MAX: Final = 100_000
WAIT_SECONDS_MAX: Final = 60.0
CHUNK_EVENTS_MAX: Final = 100_000
CURSORSET_CHARS_MAX: Final = 50
LINE_BYTES_MAX: Final = 2 << 20
"""A line with the largest event, key and headers is shorter, however they are spelled."""

_CURSOR_NAME: Final = re.compile(r"cursor(0|[1-9]\d{0,4})", re.ASCII)
_UNTIL_NAME: Final = re.compile(r"until(0|[1-9]\d{0,4})", re.ASCII)
_EXTENSIONS: Final = frozenset({"cursorset"})
_encode: Final = msgspec.json.encode


class ZeroEventHubRead(NamedTuple):
    """A v1 read request."""

    n: int
    cursors: dict[int, str]
    """Cursors by partition; empty for a resume."""
    resume: tuple[int, ...]
    until: dict[int, str]
    """Cursors to stop at, by partition: the page has no event at or after them."""
    page_size: int
    headers: HeaderChoice | None
    kinds: tuple[frozenset[str], bool] | None
    cursorset: str | None
    wait_seconds: float
    has_details: bool
    """Whether a line with details is wanted before the events: see docs/reference/http/feeds.md."""


def parse_read(query: Query) -> ZeroEventHubRead:
    """Parse a v1 read request. Unknown parameters are ignored unless they begin with `cursor` or `until`.

    Raises:
        BadPartitionCount: n is invalid for every feed; the caller adds the valid ones for this feed.
        BadParameter, BadCursor: A parameter is invalid. The error has its name, its value, the allowed values, and n
            where these depend on it.
    """
    n = read_partition_count(query)
    cursorset = _read_cursor_set(query)
    cursors = read_cursors(query, n)
    resume = _resume(query, n, cursorset, bool(cursors))
    if not cursors and not resume:
        raise BadParameter(
            parameter="cursor0", value=None, allowed="a cursor for at least one partition, such as cursor0=_first"
        )
    if query.read_flag("store_cursor") and (
        cursorset is None or not cursors
    ):  # Cursors with a cursorset are stored in any case.
        raise BadParameter(parameter="store_cursor", value="1", allowed="it goes with cursorset and cursors")
    return ZeroEventHubRead(
        n=n,
        cursors=cursors,
        resume=resume,
        until=_read_until(query, n, {*cursors, *resume}),
        page_size=page_size(query),
        headers=parse_headers(query),
        kinds=parse_kinds(query),
        cursorset=cursorset,
        wait_seconds=query.read_seconds("wait", cut_at=WAIT_SECONDS_MAX),
        has_details=query.read_flag("details"),
    )


def page_size(query: Query) -> int:
    """Return `pagesizehint`, at most the maximum page size; 0 requests only cursors."""
    return min(query.read_integer("pagesizehint", PAGE_SIZE, low=0, high=WHOLE_NUMBER_MAX), PAGE_SIZE_MAX)


def line_frame(partition: int) -> tuple[str, str, str]:
    """Return the text before, between and after the events of a partition in their lines."""
    before = f'{{"partition":{partition},"data":'
    return before, "}\n" + before, "}\n"


def event_line(partition: int, headers: dict[str, str], data: bytes) -> bytes:
    """Return the line of one event, with its headers unless they are empty."""
    if not headers:
        return b'{"partition":%d,"data":%b}\n' % (partition, data)
    return b'{"partition":%d,"headers":%b,"data":%b}\n' % (partition, _encode(headers), data)


def details_line(partition: int, details: EventDetails) -> bytes:
    r"""Return the line with the details of the events in the next lines.

    >>> details_line(0, EventDetails("a", [2], [1500], 7))
    b'{"partition":0,"details":{"kind":"a","ends":[2],"received_at":[1500],"offset":7}}\n'
    """
    return b'{"partition":%d,"details":%b}\n' % (partition, _encode(details))


def checkpoint_line(partition: int, cursor: str) -> bytes:
    r"""Return the line of a checkpoint.

    >>> checkpoint_line(0, "abc")
    b'{"partition":0,"cursor":"abc"}\n'
    """
    return b'{"partition":%d,"cursor":"%b"}\n' % (partition, cursor.encode())


_decode_line: Final = msgspec.json.Decoder(NewEvent).decode
_decode_plain_lines: Final = msgspec.json.Decoder(NewEvent).decode_lines
_encode_lines: Final = msgspec.json.Encoder().encode_lines
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_MEMBER_BYTES_MIN: Final = len('"key":"",')
_HEADER_BYTES_MIN: Final = len('"":"",')
"""Minimum number of additional bytes in a line with a repeated member or header."""


def parse_lines(body: bytes) -> tuple[Sequence[NewEvent], Sequence[int]]:
    """Parse the lines of a publish, in the format of a feed; empty lines and checkpoints are skipped.

    Returns the events, and the line number of each, from 1.

    Raises:
        RequestTooLarge: There are more lines than `EVENTS_MAX`.
        InvalidEvent: A line is not an event, or repeats a member. The error has the number of the first one.
        EventTooLarge: A line has more than `LINE_BYTES_MAX` bytes.
    """
    ends = 0
    for at in range(0, len(body), PIECE_BYTES):
        ends += body.count(b"\n", at, at + PIECE_BYTES)
        if ends > EVENTS_MAX:
            raise RequestTooLarge.of("too-many-events", limit=EVENTS_MAX)
    if len(body) <= PIECE_BYTES:
        return _parse_piece(body, 1)
    events: list[NewEvent] = []
    numbers: list[int] = []
    first = 1
    for piece in _cut_lines(body):
        if len(piece) > LINE_BYTES_MAX:
            raise EventTooLarge(line=first, size=len(piece.rstrip(b"\n")), limit=EVENT_BYTES_MAX)
        more, lines = _parse_piece(piece, first)
        events += more
        numbers += lines
        first += piece.count(b"\n")
    return events, numbers


def _cut_lines(body: bytes) -> Iterator[bytes]:
    """Yield the lines of *body* in pieces; a longer line is one alone."""
    at = 0
    while at < len(body):
        stop = len(body) if len(body) - at <= PIECE_BYTES else body.rfind(b"\n", at, at + PIECE_BYTES) + 1
        stop = stop or body.find(b"\n", at + PIECE_BYTES) + 1 or len(body)
        yield body[at:stop]
        at = stop


def _parse_piece(body: bytes, first: int) -> tuple[Sequence[NewEvent], Sequence[int]]:
    """Parse lines, of which the first one has the number *first*."""
    if (events := _plain_lines(body, body.count(b"\n"))) is not None:
        return events, range(first, first + len(events))
    lines = body.split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        events = [_decode_line(line) for line in lines]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _parse_one_by_one(lines, first)
    if not all(event.data for event in events):
        return _parse_one_by_one(lines, first)
    spare = map(sub, map(len, lines), [len(_encode(event)) for event in events])
    if max(spare, default=0) >= _HEADER_BYTES_MIN:
        return _parse_one_by_one(lines, first)
    return events, range(first, first + len(events))


def _plain_lines(body: bytes, ends: int) -> list[NewEvent] | None:
    """Parse the lines at once, with the given number of line *ends*, if they are in the form that Penstock writes."""
    try:
        events = _decode_plain_lines(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    again = _encode_lines(events)
    missing = len(again) - len(body)  # The last line may have no line break.
    is_same = again == body if not missing else missing == 1 and again.startswith(body)
    is_line_each = ends + missing == len(events)  # An event that is not decoded yet may contain LF.
    return events if is_same and is_line_each and all(event.data for event in events) else None


def _parse_one_by_one(lines: list[bytes], first: int) -> tuple[list[NewEvent], list[int]]:
    events, numbers = [], []
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        event = parse_line(line, number)
        if event.data:
            events.append(event)
            numbers.append(number)
        elif event.cursor is None:
            raise InvalidEvent(
                line=number, reason='a line is {"data": {...}}, with key, headers and partition as you like'
            )
    return events, numbers


def parse_line(line: bytes, number: int) -> NewEvent:
    """Parse the line with that *number*: an event, or a checkpoint, which has no data.

    Raises:
        InvalidEvent: The line is neither, or repeats a member.
    """
    try:
        event = _decode_line(line)
        _refuse_strange(line, event, number)
        return event
    except RecursionError:
        raise InvalidEvent(line=number, reason="the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = explain_malformed(line, error, "it ends in the middle; an event stands on one line")
        raise InvalidEvent(line=number, reason=f"not a feed line: {why}") from None


def _refuse_strange(line: bytes, event: NewEvent, number: int) -> None:
    """Raise InvalidEvent if a member or header is repeated; only lines long enough for that are inspected.

    A CloudEvent is refused, too: all its members other than `data` would be lost.
    """
    members = _decode_members(line)
    if "specversion" in members:
        instead = "application/cloudevents+json, or several in an array as application/cloudevents-batch+json"
        raise InvalidEvent(line=number, reason=f"not a feed line but a CloudEvent: send it with Content-Type {instead}")
    is_longer = len(line) - len(_encode(members)) >= _MEMBER_BYTES_MIN
    if is_longer or (event.headers and len(members["headers"]) - len(_encode(event.headers)) >= _HEADER_BYTES_MIN):
        refuse_duplicate_keys(line, number)


def publish_response(count: int, cursors: dict[int, str]) -> dict[str, Any]:
    """Return the response to a publish: the number of events, and the cursors just after them by partition."""
    return {"count": count, "cursors": {str(partition): cursor for partition, cursor in sorted(cursors.items())}}


def read_partition_count(query: Query) -> int:
    """Return n; raise BadParameter or BadPartitionCount if no feed can be read with it."""
    n = query.read_integer("n", None, low=0, high=WHOLE_NUMBER_MAX)
    if 1 <= n <= VIEW_PARTITIONS_MAX:
        return n
    raise BadPartitionCount(n=n)


def read_cursors(query: Query, n: int) -> dict[int, str]:
    """Return the cursors by partition; raise BadParameter or BadCursor if one cannot be read with *n*."""
    cursors = {}
    for name in query.list_names():
        if not name.startswith("cursor") or name in _EXTENSIONS:
            continue
        match = _CURSOR_NAME.fullmatch(name)
        if match is None or int(match[1]) >= n:
            value = make_printable(query.find_text(name) or "")
            raise BadParameter(
                parameter=make_printable(name), value=value, allowed=f"cursor0 to cursor{n - 1}, as n={n}", n=n
            )
        text = query.read_cursor(name)
        assert text is not None
        cursors[int(match[1])] = text
    return cursors


def _read_until(query: Query, n: int, partitions: Collection[int]) -> dict[int, str]:
    found = {}
    for name in query.list_names():
        if not name.startswith("until"):
            continue
        match = _UNTIL_NAME.fullmatch(name)
        if match is None or int(match[1]) not in partitions:
            value, allowed = (
                make_printable(query.find_text(name) or ""),
                "until and the number of a partition that is read: until0",
            )
            raise BadParameter(parameter=make_printable(name), value=value, allowed=allowed, n=n)
        text = query.read_cursor(name)
        assert text is not None
        found[int(match[1])] = text
    return found


def _read_cursor_set(query: Query) -> str | None:
    name = query.find_text("cursorset")
    if name is None or (len(name) <= CURSORSET_CHARS_MAX and is_path_name(name)):
        return name
    allowed = f"1 to {CURSORSET_CHARS_MAX} characters of printable ASCII, but neither . nor .. alone"
    raise BadParameter(parameter="cursorset", value=make_printable(name), allowed=allowed)


def _resume(query: Query, n: int, cursorset: str | None, has_cursors: bool) -> tuple[int, ...]:
    text = query.find_text("resume")
    if text is None:
        return ()
    if cursorset is None or has_cursors:
        raise BadParameter(
            parameter="resume", value=make_printable(text), allowed="it goes with cursorset, and without cursors"
        )
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= 5 and int(part) < n for part in parts):
        raise BadParameter(
            parameter="resume",
            value=make_printable(text),
            allowed=f"partitions from 0 to {n - 1}, separated by commas",
            n=n,
        )
    return tuple(sorted({int(part) for part in parts}))
