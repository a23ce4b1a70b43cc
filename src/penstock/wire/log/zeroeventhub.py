"""ZeroEventHub v1: its query, its lines, and the extensions that it calls possible.

Source: https://github.com/vippsas/zeroeventhub; docs/decisions/feed-extensions.md has what it leaves open.
"""

import re
from collections.abc import Collection, Sequence
from operator import sub
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.events.event import EVENT_BYTES_MAX, EVENTS_MAX, NewEvent
from penstock.core.log.cursor import VIEW_PARTITIONS_MAX
from penstock.errors import BadParameter, BadPartitionCount, InvalidEvent, TooManyEvents
from penstock.schema.json_text import refuse_duplicate_keys, why_malformed
from penstock.wire.query import WHOLE_NUMBER_MAX, HeaderChoice, Query, headers_of, kinds_of, shown

NDJSON: Final = "application/x-ndjson"
PAGE_SIZE: Final = 1_000
PAGE_SIZE_MAX: Final = 100_000
WAIT_SECONDS_MAX: Final = 60.0
CHUNK_EVENTS_MAX: Final = 100_000
CURSORSET_CHARS_MAX: Final = 50

_CURSOR_NAME: Final = re.compile(r"cursor(0|[1-9]\d{0,4})", re.ASCII)
_UNTIL_NAME: Final = re.compile(r"until(0|[1-9]\d{0,4})", re.ASCII)
_EXTENSIONS: Final = frozenset({"cursorset"})
_encode: Final = msgspec.json.encode


class ReadRequest(NamedTuple):
    """What a v1 reader asks for."""

    n: int
    cursors: dict[int, str]
    """By partition; empty when it resumes."""
    resume: tuple[int, ...]
    until: dict[int, str]
    """By partition, cursors to stop at: the page has no event at or after them."""
    page_size: int
    headers: HeaderChoice | None
    kinds: tuple[frozenset[str], bool] | None
    cursorset: str | None
    wait_seconds: float


def parse_read(query: Query) -> ReadRequest:
    """Read a v1 request. Unknown parameters are ignored but for those that start with `cursor` or `until`.

    Raises:
        BadPartitionCount: n works for no feed; whoever knows this one is to say which do, as for what has to fit n.
        BadParameter, BadCursor: names the parameter, its value and what is allowed, and n where that depends on it.
    """
    n = _count(query)
    cursorset = _cursorset(query)
    cursors = _cursors(query, n)
    resume = _resume(query, n, cursorset, bool(cursors))
    if not cursors and not resume:
        raise BadParameter(
            parameter="cursor0", value=None, allowed="a cursor for at least one partition, such as cursor0=_first"
        )
    if query.flag("store_cursor") and (cursorset is None or not cursors):  # They are kept whatever it says.
        raise BadParameter(parameter="store_cursor", value="1", allowed="it goes with cursorset and cursors")
    return ReadRequest(
        n=n,
        cursors=cursors,
        resume=resume,
        until=_until(query, n, {*cursors, *resume}),
        page_size=page_size(query),
        headers=headers_of(query),
        kinds=kinds_of(query),
        cursorset=cursorset,
        wait_seconds=query.seconds("wait", cut_at=WAIT_SECONDS_MAX),
    )


def page_size(query: Query) -> int:
    """Return `pagesizehint`, cut at what a page can have; 0 asks for cursors alone."""
    return min(query.integer("pagesizehint", PAGE_SIZE, low=0, high=WHOLE_NUMBER_MAX), PAGE_SIZE_MAX)


def line_frame(partition: int) -> tuple[str, str, str]:
    """Return what stands before, between and after the events of a partition on their lines."""
    before = f'{{"partition":{partition},"data":'
    return before, "}\n" + before, "}\n"


def event_line(partition: int, headers: dict[str, str], data: bytes) -> bytes:
    """Return the line of one event with its headers, which are left out when empty."""
    if not headers:
        return b'{"partition":%d,"data":%b}\n' % (partition, data)
    return b'{"partition":%d,"headers":%b,"data":%b}\n' % (partition, _encode(headers), data)


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
"""The least that a line is longer by than it need be where one of them stands in it twice."""


def parse_lines(body: bytes) -> tuple[Sequence[NewEvent], Sequence[int]]:
    """Read the lines of a publish, as a feed gives them; empty lines and checkpoints are passed over.

    Returns the events and the number of each one's line, counted from 1.

    Raises:
        TooManyEvents: there are more lines than `EVENTS_MAX`.
        InvalidEvent: names the first line that is none, or in which a member stands twice.
    """
    if (ends := body.count(b"\n")) > EVENTS_MAX:
        raise TooManyEvents(limit=EVENTS_MAX)
    if (events := _plain_lines(body, ends)) is not None:
        return events, range(1, len(events) + 1)
    lines = body.split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        events = [_decode_line(line) for line in lines]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _parse_one_by_one(lines)
    if not all(event.data for event in events):
        return _parse_one_by_one(lines)
    spare = map(sub, map(len, lines), [len(_encode(event)) for event in events])
    if max(spare, default=0) >= _HEADER_BYTES_MIN:
        return _parse_one_by_one(lines)
    return events, range(1, len(events) + 1)


def _plain_lines(body: bytes, ends: int) -> list[NewEvent] | None:
    """Read the lines, with so many *ends*, if they are spelled as we do ourselves: one look at all of it tells that."""
    try:
        events = _decode_plain_lines(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    again = _encode_lines(events)
    missing = len(again) - len(body)  # The end of the last line may be.
    is_same = again == body if not missing else missing == 1 and again.startswith(body)
    is_line_each = ends + missing == len(events)  # Within an event that nobody has decoded yet there can be LF.
    return events if is_same and is_line_each and all(event.data for event in events) else None


def _parse_one_by_one(lines: list[bytes]) -> tuple[list[NewEvent], list[int]]:
    events, numbers = [], []
    for number, line in enumerate(lines, 1):
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
    """Read the line with that *number*: an event, or a checkpoint, which has no data.

    Raises:
        InvalidEvent: it is neither, or a member stands in it twice.
    """
    try:
        event = _decode_line(line)
        _refuse_strange(line, event, number)
        return event
    except RecursionError:
        raise InvalidEvent(line=number, reason="the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if len(line) > 4 * EVENT_BYTES_MAX:
            raise InvalidEvent(line=number, reason=f"{len(line)} bytes that are not valid JSON") from None
        why = why_malformed(line, error, "it ends in the middle; an event stands on one line")
        raise InvalidEvent(line=number, reason=f"not a feed line: {why}") from None


def _refuse_strange(line: bytes, event: NewEvent, number: int) -> None:
    """Raise InvalidEvent where a member or a header stands twice; only a line with room for that is looked into.

    A CloudEvent is refused, too: beside its `data` all that it says would be lost.
    """
    members = _decode_members(line)
    if "specversion" in members:
        instead = '{"data": {...}, "headers": {"ce_id": ..., "ce_type": ...}}'
        raise InvalidEvent(line=number, reason=f"a CloudEvent is not spoken here: send {instead}")
    is_longer = len(line) - len(_encode(members)) >= _MEMBER_BYTES_MIN
    if is_longer or (event.headers and len(members["headers"]) - len(_encode(event.headers)) >= _HEADER_BYTES_MIN):
        refuse_duplicate_keys(line, number)


def published(count: int, cursors: dict[int, str]) -> dict[str, Any]:
    """Return the answer to a publish: how many, and by partition the cursor just after."""
    return {"count": count, "cursors": {str(partition): cursor for partition, cursor in sorted(cursors.items())}}


def _count(query: Query) -> int:
    n = query.integer("n", None, low=0, high=WHOLE_NUMBER_MAX)
    if 1 <= n <= VIEW_PARTITIONS_MAX:
        return n
    raise BadPartitionCount(n=n)


def _cursors(query: Query, n: int) -> dict[int, str]:
    cursors = {}
    for name in query.names():
        if not name.startswith("cursor") or name in _EXTENSIONS:
            continue
        match = _CURSOR_NAME.fullmatch(name)
        if match is None or int(match[1]) >= n:
            value = shown(query.text(name) or "")
            raise BadParameter(parameter=shown(name), value=value, allowed=f"cursor0 to cursor{n - 1}, as n={n}", n=n)
        text = query.cursor(name)
        assert text is not None
        cursors[int(match[1])] = text
    return cursors


def _until(query: Query, n: int, partitions: Collection[int]) -> dict[int, str]:
    found = {}
    for name in query.names():
        if not name.startswith("until"):
            continue
        match = _UNTIL_NAME.fullmatch(name)
        if match is None or int(match[1]) not in partitions:
            value, allowed = shown(query.text(name) or ""), "until and the number of a partition that is read: until0"
            raise BadParameter(parameter=shown(name), value=value, allowed=allowed, n=n)
        text = query.cursor(name)
        assert text is not None
        found[int(match[1])] = text
    return found


def _cursorset(query: Query) -> str | None:
    name = query.text("cursorset")
    if name is None or (0 < len(name) <= CURSORSET_CHARS_MAX and name.isascii() and name.isprintable()):
        return name
    allowed = f"1 to {CURSORSET_CHARS_MAX} characters of printable ASCII"
    raise BadParameter(parameter="cursorset", value=shown(name), allowed=allowed)


def _resume(query: Query, n: int, cursorset: str | None, has_cursors: bool) -> tuple[int, ...]:
    text = query.text("resume")
    if text is None:
        return ()
    if cursorset is None or has_cursors:
        raise BadParameter(parameter="resume", value=shown(text), allowed="it goes with cursorset, and without cursors")
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= 5 and int(part) < n for part in parts):
        raise BadParameter(
            parameter="resume", value=shown(text), allowed=f"partitions from 0 to {n - 1}, separated by commas", n=n
        )
    return tuple(sorted({int(part) for part in parts}))
