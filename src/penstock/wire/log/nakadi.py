"""Nakadi's HTTP contract of the log: event types, schemas, batches, cursors and streams.

A Nakadi cursor names the last consumed event; a position in Penstock's code is the next offset wanted, one more.

Source: Nakadi's manual, https://nakadi.io/manual.html, and docs/decisions/nakadi-contract.md where it is silent.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from penstock.core.events.event import DECODED_BYTES_MAX, EVENTS_MAX, PIECE_BYTES, NewEvent
from penstock.core.log.batching import FeedBatch
from penstock.core.subscriptions.delivery import JoinedEvents
from penstock.core.times import count_microseconds, parse_timestamp
from penstock.errors import BadCursor, BadParameter, MalformedRequest, RequestTooLarge, UnusablePosition
from penstock.schema.json_text import BOM, explain_malformed
from penstock.wire.query import UNTIL_ELSEWHERE, Query, make_printable, refuse_until

SCHEMAS_MAX: Final = 1_000
"""Maximum number of schema versions in one response."""
_OFFSET: Final = re.compile(r"001-([0-9a-f]{4,8})-(-1|\d{1,18})", re.ASCII)
_split: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_EVENT_END: Final = re.compile(rb"\}[ \t\r\n]*+(?=,)")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[{}\[\],]', re.DOTALL)
"""A string, whole or cut off, or a mark of JSON's structure."""
GUESSES: Final = 8
"""Number of places that are tried as the end of a piece before the structure of the array is read."""


def event_type_object(
    definition: dict[str, Any], *, partition_count: int, created_at: str, updated_at: str
) -> dict[str, Any]:
    """Return an event type's object: its owner's definition, unknown members included, with defaults."""
    return definition | {"partition_count": partition_count, "created_at": created_at, "updated_at": updated_at}


def offset_text(epoch: int, offset: int) -> str:
    """Return the offset of the last consumed event in Nakadi's format; -1 before the first.

    >>> offset_text(1, 41), offset_text(2, -1)
    ('001-0001-000000000000000041', '001-0002--1')
    """
    return f"001-{epoch:04x}-{offset:018}" if offset >= 0 else f"001-{epoch:04x}--1"


def parse_offset(text: str) -> tuple[int, int]:
    """Return the epoch and the offset of an offset in Nakadi's format.

    Raises:
        BadCursor: *text* is not in that format.

    >>> parse_offset("001-0001-000000000000000041")
    (1, 41)
    """
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise BadCursor(
            parameter="offset", value=make_printable(text), reason="it is not of the form 001-0001-000000000000000041"
        )
    return int(match[1], 16), int(match[2])


def partition_object(epoch: int, partition: int, floor: int, next_offset: int) -> dict[str, str]:
    """Return a partition's object: its first and last event. In an empty partition the last precedes the first."""
    return {
        "partition": str(partition),
        "oldest_available_offset": offset_text(epoch, floor),
        "newest_available_offset": offset_text(epoch, next_offset - 1),
    }


def schema_pages(count: int, *, limit: int, offset: int, more: bool) -> dict[str, list[tuple[str, int]]]:
    """Return the queries of the previous and the next page of *count* schema versions, if they exist.

    *count* may be less than *limit* although there are more: the next page begins where this one has ended.

    >>> schema_pages(1, limit=1, offset=0, more=True)
    {'next': [('offset', 1), ('limit', 1)]}
    """
    pages = {}
    if count and offset:
        pages["prev"] = [("offset", max(0, offset - limit)), ("limit", limit)]
    if more:
        pages["next"] = [("offset", offset + count), ("limit", limit)]
    return pages


def parse_batch(body: bytes) -> list[NewEvent]:
    """Return the events of a JSON array, without decoding them.

    An event far above the limit of size is cut off, and the array is not read further.

    Raises:
        RequestTooLarge: There are more than `EVENTS_MAX` events.
        MalformedRequest: The body is not a JSON array. The error names no event, since it may lie between two of them.

    >>> [bytes(event.data) for event in parse_batch(b'[{"a":1}, {"a":2}]')]
    [b'{"a":1}', b'{"a":2}']
    """
    start = _SPACE.match(body).end()  # type: ignore[union-attr]  # It always matches.
    if not body.startswith((b"[", BOM), start):
        raise _make_malformed_batch("the body is an array of events: it begins with [")
    if len(body) <= PIECE_BYTES or body.startswith(BOM, start):
        return list(map(NewEvent, _split_array(body, 0)))
    events: list[NewEvent] = []
    for elements in _split_pieces(body, start + 1):
        events += map(NewEvent, elements)
        if len(events) > EVENTS_MAX:
            raise RequestTooLarge.of("too-many-events", limit=EVENTS_MAX)
    return events


def _split_array(array: bytes, start: int) -> list[msgspec.Raw]:
    """Return the elements of *array*, which begins at byte *start* of the body."""
    try:
        return _split(array)
    except RecursionError:
        raise _make_malformed_batch("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = explain_malformed(array, error, start=start)
        raise _make_malformed_batch(f"the body is not valid JSON: {reason}") from None


def _split_pieces(body: bytes, start: int) -> Iterator[list[msgspec.Raw]]:
    """Yield the elements of an array in pieces, from the byte after its bracket on: no other thread runs meanwhile."""
    at, is_first = start, True
    while True:
        at = _SPACE.match(body, at).end()  # type: ignore[union-attr]
        elements, stop = _split_piece(body, at)
        if not elements and not (is_first and stop == len(body)):
            raise _make_malformed_batch(f"the body is not valid JSON: an event is missing (byte {at + 1})")
        yield elements
        if stop == len(body):
            return
        at, is_first = stop + 1, False


def _split_piece(body: bytes, at: int) -> tuple[list[msgspec.Raw], int]:
    """Return the elements from *at* on, and the index of the comma behind them, or the length of *body*."""
    if len(body) - at <= PIECE_BYTES:
        return _split_array(b"[" + body[at:], at - 1), len(body)
    for end in islice(_EVENT_END.finditer(body, at + PIECE_BYTES // 2, at + PIECE_BYTES), GUESSES):
        # The guess is right if the part is a whole array once brackets enclose it.
        with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return _split(b"[" + body[at : end.end()] + b"]"), end.end()
    comma = _find_comma(body, at)
    if comma is None:
        return [msgspec.Raw(body[at : at + DECODED_BYTES_MAX + 1])], len(body)
    if comma == len(body):
        return _split_array(b"[" + body[at:], at - 1), comma
    return _split_array(b"[" + body[at:comma] + b"]", at - 1), comma


def _find_comma(body: bytes, at: int) -> int | None:
    """Return the index of a comma behind elements from *at* on; the length of *body* if the array ends before it.

    None: the first element is larger than an event can be.
    """
    comma, depth = None, 0
    for token in _TOKEN.finditer(body, at, at + DECODED_BYTES_MAX + 1):
        text = token[0]
        if text in (b"{", b"["):
            depth += 1
        elif text in (b"}", b"]"):
            depth -= 1
            if depth < 0:
                return len(body)
        elif text == b"," and not depth:
            comma = token.start()
            if comma - at > PIECE_BYTES:
                break
    return comma


def _make_malformed_batch(reason: str) -> MalformedRequest:
    # Clients recognize Nakadi's words at the beginning.
    return MalformedRequest.of(
        "malformed-batch", f"Error occurred when parsing event(s). {reason[0].upper()}{reason[1:]}", reason=reason
    )


def make_batch_responses(events: Sequence[NewEvent], failed: int, step: str, detail: str) -> list[dict[str, Any]]:
    """Return Nakadi's response for each event of a batch whose event at *failed* did not pass *step*.

    >>> [each["step"] for each in make_batch_responses(parse_batch(b"[{},{},{}]"), 1, "validating", "wrong")]
    ['validating', 'validating', 'none']
    """
    before, after = {"validating": ("validating", "none"), "partitioning": ("partitioning", "validating")}[step]
    responses = [
        _response("aborted", before if number < failed else after, "", event) for number, event in enumerate(events)
    ]
    if events:
        responses[failed] = _response("failed", step, detail, events[failed])
    return responses


def make_aborted_responses(events: Sequence[NewEvent], detail: str) -> list[dict[str, Any]]:
    """Return Nakadi's response for each event of a batch that was refused as a whole."""
    return [_response("aborted", "none", detail, event) for event in events]


def _response(status: str, step: str, detail: str, event: NewEvent) -> dict[str, Any]:
    return {"publishing_status": status, "step": step, "detail": detail, "eid": _eid(event), "partition": None}


class _Metadata(msgspec.Struct):
    eid: msgspec.Raw


class _Identified(msgspec.Struct):
    metadata: _Metadata


_identify: Final = msgspec.json.Decoder(_Identified).decode
"""Builds nothing of an event but its id: one with hundreds of thousands of lists would keep the interpreter's lock."""


def _eid(event: NewEvent) -> str:
    if len(event.data) > DECODED_BYTES_MAX:
        return ""  # It is cut off.
    try:
        return msgspec.json.decode(_identify(event.data).metadata.eid, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


UNUSABLE: Final = "unusable-cursor"
"""The code of errors about a cursor."""
UNUSABLE_START: Final = "unusable-start"
"""The code of errors about a cursor at which a stream is to begin."""
HEADER: Final = "X-nakadi-cursors"
BEGIN: Final = "BEGIN"
OFFSET_MAX: Final = 10**18 - 1
"""The largest offset that fits into Nakadi's format."""
_VERSIONED: Final = re.compile(r"001-([0-9a-f]{4,8})-(-1|\d{1,18})", re.ASCII)
_PLAIN: Final = re.compile(r"-1|\d{1,18}", re.ASCII)
_FIRST_TIMELINE: Final = 1
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Text = str | _Integer | None
Given = TypeVar("Given")


class OffsetExtent(NamedTuple):
    """The range of offsets in a partition."""

    epoch: int
    floor: int
    """The first available offset."""
    next_offset: int
    """The offset of the next event."""


class CursorPlace(NamedTuple):
    """A partition and a position in it."""

    partition: int
    position: int
    """The next offset wanted."""


class GivenCursor(msgspec.Struct):
    """A cursor from a client, not yet validated."""

    partition: _Text = None
    offset: _Text = None


class GivenShift(GivenCursor):
    """A cursor from a client, and a number of events to shift it by."""

    shift: _Integer | None = None


class GivenPair(msgspec.Struct):
    """Two cursors from a client, to measure their distance."""

    initial_cursor: GivenCursor | None = None
    final_cursor: GivenCursor | None = None


def parse_header(text: str) -> list[GivenCursor]:
    """Parse the cursors header of a stream. Empty lists and null members are refused later.

    Raises:
        BadParameter: The value is not a JSON list of cursors.
        UnusablePosition: A cursor is null.
    """
    try:
        given = msgspec.json.decode(text.encode("latin-1"), type=list[GivenCursor | None])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        allowed = f"a JSON array such as {_EXAMPLE}"
        detail = f"incorrect syntax of {HEADER} header"
        raise BadParameter(detail, parameter=HEADER, value=make_printable(text), allowed=allowed) from None
    return [_require(each, f"[{index}]", UNUSABLE_START) for index, each in enumerate(given)]


def parse_list(text: str, parameter: str) -> list[GivenCursor]:
    """Parse the cursors in a query parameter.

    Raises:
        UnusablePosition: The value is not a JSON list of cursors, or a cursor is null.
    """
    try:
        given = msgspec.json.decode(text.encode(), type=list[GivenCursor | None])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        detail = f"parameter {parameter} is not a JSON array such as {_EXAMPLE}: {error}"
        raise UnusablePosition.of(UNUSABLE, detail, partition=None, offset=None, reason=str(error)) from None
    return [_require(each, f"{parameter}[{index}]") for index, each in enumerate(given)]


def parse_body(body: bytes, type: type[Given]) -> list[Given]:
    """Parse a body that is a list of *type*.

    Raises:
        BadParameter: The body is not JSON, or a value has the wrong type.
        UnusablePosition: An item is null.
    """
    try:
        given: list[Given | None] = msgspec.json.decode(body, type=list[type | None])  # type: ignore[valid-type]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"the body cannot be read: {explain_malformed(body, error)}"
        raise BadParameter(detail, parameter="body", allowed="a JSON array") from None
    return [_require(each, f"[{index}]") for index, each in enumerate(given)]


def parse_place(
    given: GivenCursor, extents: Sequence[OffsetExtent], at: str = "", *, code: str = UNUSABLE
) -> CursorPlace:
    """Return the partition and position of a cursor; *at* names the cursor in errors.

    The position need not be readable: see `parse_readable_place`.

    Raises:
        UnusablePosition: (with this *code*) The partition does not exist, or the offset does not belong to this feed.

    >>> parse_place(GivenCursor("0", "001-0001-000000000000000041"), [OffsetExtent(1, 0, 99)])
    CursorPlace(partition=0, position=42)
    """
    partition = parse_partition_number(require_member(given, at, "partition", code), extents, code)
    text, extent = require_member(given, at, "offset", code), extents[partition]
    return CursorPlace(partition, _parse_position(text, partition, extent, code))


def is_offset(text: str) -> bool:
    """Return whether *text* has the form of an offset or is BEGIN.

    >>> is_offset("001-0001-000000000000000041"), is_offset("41"), is_offset("begin"), is_offset("-5")
    (True, True, True, False)
    """
    return text.upper() == BEGIN or bool(_VERSIONED.fullmatch(text) or _PLAIN.fullmatch(text))


def parse_partition_number(text: str, extents: Sequence[OffsetExtent], code: str = UNUSABLE) -> int:
    """Return the number of a partition.

    Raises:
        UnusablePosition: (with this *code*) The partition does not exist.
    """
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
    if number is None or str(number) != text or number >= len(extents):
        name, last = make_printable(text), len(extents) - 1
        reason = f"partitions are numbered from 0 to {last}"
        raise UnusablePosition.of(code, f"non existing partition {name}", partition=name, offset=None, reason=reason)
    return number


def parse_readable_place(
    given: GivenCursor, extents: Sequence[OffsetExtent], at: str = "", *, code: str = UNUSABLE
) -> CursorPlace:
    """Return the partition and position of a cursor, if all events after it are available.

    Raises:
        UnusablePosition: (with this *code*) As for `parse_place`; or retention has removed events after the cursor, or
            it lies beyond the newest event.
    """
    found = parse_place(given, extents, at, code=code)
    extent = extents[found.partition]
    if extent.floor <= found.position <= extent.next_offset:
        return found
    lost, text = extent.floor - found.position, str(given.offset)
    reason = f"retention has removed {lost} events after it" if lost > 0 else "it is beyond the newest event"
    raise make_unusable_cursor(code, text, found.partition, extent, reason)


def check_distinct(places: Sequence[CursorPlace], code: str = UNUSABLE) -> None:
    """Raise UnusablePosition, with the *code* given, if two cursors are in the same partition."""
    seen: set[int] = set()
    for partition, _ in places:
        if partition in seen:
            reason = f"partition {partition} has more than one cursor"
            raise UnusablePosition.of(code, reason, partition=str(partition), offset=None, reason=reason)
        seen.add(partition)


def parse_at(query: Query) -> int:
    """Return the time in the query, in microseconds since 1970, UTC.

    Raises:
        BadParameter: The time is missing, or not an RFC 3339 time with a zone.
    """
    return parse_time(query.find_text("at"), "at", "; in a URL, + is written %2B")


def parse_time(text: str | None, parameter: str, advice: str = "") -> int:
    """Return *text* in microseconds since 1970, UTC; *parameter* names it in errors.

    Raises:
        BadParameter: *text* is not an RFC 3339 time with a zone.

    >>> parse_time("1970-01-01T01:00:01.5+01:00", "at")
    1500000
    """
    try:
        return count_microseconds(parse_timestamp(text))
    except ValueError:
        value = None if text is None else make_printable(text)
        allowed = f"a time as RFC 3339 has it, such as 2026-11-20T10:00:00Z{advice}"
        raise BadParameter(parameter=parameter, value=value, allowed=allowed) from None


def cursor_object(epoch: int, place: CursorPlace) -> dict[str, str]:
    """Return a cursor's object."""
    return {"partition": str(place.partition), "offset": offset_text(epoch, place.position - 1)}


def partition_extent_object(extent: OffsetExtent, partition: int, position: int | None = None) -> dict[str, str | int]:
    """Return a partition's object; with a consumer's *position* also its number of unconsumed events."""
    found: dict[str, str | int] = {**partition_object(extent.epoch, partition, extent.floor, extent.next_offset)}
    return found if position is None else found | {"unconsumed_events": extent.next_offset - position}


def measure_distance(given: GivenPair, extents: Sequence[OffsetExtent], at: str) -> dict[str, Any]:
    """Return two cursors and the number of events between them, negative if the final one is the earlier.

    Raises:
        UnusablePosition: A cursor is missing or does not belong to this feed, or they are in different partitions.
    """
    ends = {"initial_cursor": given.initial_cursor, "final_cursor": given.final_cursor}
    known = {name: _require(cursor, f"{at}.{name}") for name, cursor in ends.items()}
    initial, final = (parse_place(cursor, extents, f"{at}.{name}") for name, cursor in known.items())
    if initial.partition != final.partition:
        reason = "the two cursors are of different partitions"
        partition, offset = str(final.partition), str(known["final_cursor"].offset)
        raise UnusablePosition.of(UNUSABLE, f"{at}: {reason}", partition=partition, offset=offset, reason=reason)
    shapes = {name: {"partition": str(c.partition), "offset": str(c.offset)} for name, c in known.items()}
    return {**shapes, "distance": final.position - initial.position}


def shift_cursor(given: GivenShift, extents: Sequence[OffsetExtent], at: str) -> dict[str, str]:
    """Return the cursor shifted by a number of events, forward or back, also beyond the newest event.

    Raises:
        UnusablePosition: The cursor does not belong to this feed, or would lie before its very first event.
    """
    start = parse_place(given, extents, at)
    position = start.position + (given.shift or 0)
    if not 0 <= position <= OFFSET_MAX + 1:
        reason = f"{given.shift} events from it there is no offset"
        raise make_unusable_cursor(UNUSABLE, str(given.offset), start.partition, extents[start.partition], reason)
    return cursor_object(extents[start.partition].epoch, CursorPlace(start.partition, position))


_EXAMPLE: Final = '[{"partition":"0","offset":"BEGIN"}]'


def _require(given: Given | None, at: str, code: str = UNUSABLE) -> Given:
    if given is None:
        raise _make_null_error(at, code)
    return given


def require_member(given: GivenCursor, at: str, name: str, code: str = UNUSABLE) -> str:
    """Return a member of a cursor as text.

    Raises:
        UnusablePosition: (with this *code*) The member is null.
    """
    value: _Text = getattr(given, name)
    if value is None:
        raise _make_null_error(f"{at}.{name}" if at else name, code)
    return str(value)


def _make_null_error(at: str, code: str) -> UnusablePosition:
    return UnusablePosition.of(
        code, f'Field "{at}" may not be null', partition=None, offset=None, reason=f"{at} is null"
    )


def _parse_position(text: str, partition: int, extent: OffsetExtent, code: str) -> int:
    if text.upper() == BEGIN:
        return extent.floor
    if match := _VERSIONED.fullmatch(text):
        epoch, number = int(match[1], 16), int(match[2])
    elif _PLAIN.fullmatch(text):  # Nakadi's format before timelines.
        epoch, number = _FIRST_TIMELINE, int(text)
    else:
        reason = f"it is neither of the form {offset_text(extent.epoch, 41)} nor {BEGIN}"
        raise make_unusable_cursor(code, text, partition, extent, reason)
    if epoch != extent.epoch:
        reason = f"it is of the feed's epoch {epoch}, which is now {extent.epoch}"
        raise make_unusable_cursor(code, text, partition, extent, reason)
    return number + 1


def make_unusable_cursor(code: str, text: str, partition: int, extent: OffsetExtent, reason: str) -> UnusablePosition:
    """Return the error, with the *code* given, for a cursor with offset *text*; it includes the available offsets."""
    known = partition_object(extent.epoch, partition, extent.floor, extent.next_offset)
    return UnusablePosition.of(
        code, **known | {"partition": str(partition)}, offset=make_printable(text), reason=reason
    )


MEDIA_TYPE: Final = "application/x-json-stream"
BATCH_LIMIT: Final = 1
FLUSH_TIMEOUT: Final = 30
STREAM_TIMEOUT_MAX: Final = 4_200
NUMBER_MAX: Final = 2**31 - 1
PART_BYTES: Final = 256 << 10
"""Approximate size in which lines are written: a single line may be as large as the whole stream's limit."""
_NUMBER: Final = re.compile(r"-?\d{1,10}", re.ASCII)


class StreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The validated parameters of a stream, with defaults. Times are in seconds."""

    batch_limit: int
    stream_limit: int
    """Maximum number of events; 0 is unlimited."""
    batch_flush_timeout: int
    stream_timeout: int | None
    """None leaves it to the hub."""
    stream_keep_alive_limit: int
    """Maximum number of consecutive keep-alives; 0 is unlimited."""


def parse_stream(query: Query) -> StreamRequest:
    """Parse a stream's parameters.

    Raises:
        BadParameter: A value is not an integer, or is repeated.
        BadParameter: A number is invalid, alone or together with another.
    """
    refuse_until(query, allowed=UNTIL_ELSEWHERE)
    batch_limit = _parse_number(query, "batch_limit", BATCH_LIMIT)
    stream_limit = _parse_number(query, "stream_limit", 0)
    flush = _parse_number(query, "batch_flush_timeout", FLUSH_TIMEOUT) or FLUSH_TIMEOUT
    timeout = _parse_number(query, "stream_timeout", 0)
    keep_alives = _parse_number(query, "stream_keep_alive_limit", 0)
    _check_least("batch_limit", batch_limit, 1)
    _check_least("batch_flush_timeout", flush, 0)
    _check_least("stream_keep_alive_limit", keep_alives, 0)
    if stream_limit != 0:
        _check_least("stream_limit", stream_limit, batch_limit, "batch_limit")
    is_chosen = 0 < timeout <= STREAM_TIMEOUT_MAX
    if is_chosen:
        _check_least("stream_timeout", timeout, flush, "batch_flush_timeout")
    return StreamRequest(
        batch_limit=batch_limit,
        stream_limit=stream_limit,
        batch_flush_timeout=flush,
        stream_timeout=timeout if is_chosen else None,
        stream_keep_alive_limit=keep_alives,
    )


class StreamLines:
    """Writes the lines of one stream."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def parts(self, batches: Iterable[FeedBatch]) -> Iterator[bytes]:
        r"""Return the lines of *batches*, in parts of about `PART_BYTES`; a batch without events is a keep-alive.

        >>> b"".join(StreamLines(1).parts([FeedBatch(0, 2, [b'{"n":0}', b'{"n":1}'])]))
        b'{"cursor":{"partition":"0","offset":"001-0001-000000000000000001"},"events":[{"n":0},{"n":1}]}\n'
        >>> b"".join(StreamLines(1).parts([FeedBatch(0, 0, [])]))
        b'{"cursor":{"partition":"0","offset":"001-0001--1"}}\n'
        """
        return join_in_parts(
            (b'{"cursor":{%b}' % cursor_members(partition, self._epoch, position), events, b"}\n")
            for partition, position, events in batches
        )


def cursor_members(partition: int, epoch: int, position: int) -> bytes:
    """Return the members that every cursor has, for the next offset wanted."""
    offset = b"%018d" % (position - 1) if position else b"-1"
    return b'"partition":"%d","offset":"001-%04x-%b"' % (partition, epoch, offset)


def join_in_parts(lines: Iterable[tuple[bytes, Sequence[bytes], bytes]]) -> Iterator[bytes]:
    """Join lines in parts of about `PART_BYTES`. A line is its beginning, its events, and its end.

    Events of the size of a part are returned as they are, to avoid copying them.
    """
    gathered: list[bytes] = []
    size = 0
    for before, events, after in lines:
        gathered.append(before)
        for text in _members(events):
            if len(text) >= PART_BYTES:
                yield b"".join(gathered)
                yield text
                gathered, size = [], 0
                continue
            gathered.append(text)
            size += len(text)
            if size >= PART_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
        if events:
            gathered.append(b"]")
        gathered.append(after)
    yield b"".join(gathered)


def _members(events: Sequence[bytes]) -> Iterable[bytes]:
    """Return the events of a batch with commas, joined into parts."""
    if not events:
        return ()
    if isinstance(events, JoinedEvents):
        return b',"events":[', events.data.replace(b"\n", b",")
    if len(events) == 1:
        return (b',"events":[%b' % events[0],)
    step = max(1, len(events) * PART_BYTES // max(1, sum(map(len, events))))
    if step >= len(events):
        return b',"events":[', b",".join(events)
    joined = (b",".join(events[at : at + step]) for at in range(0, len(events), step))
    return (each for index, text in enumerate(joined) for each in (b"," if index else b',"events":[', text))


def _parse_number(query: Query, name: str, default: int) -> int:
    text = query.find_text(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or abs(int(text)) > NUMBER_MAX:
        raise BadParameter(parameter=name, value=make_printable(text), allowed=f"a whole number, up to {NUMBER_MAX}")
    return int(text)


def _check_least(name: str, value: int, least: int, called: str | None = None) -> None:
    if value < least:
        detail = f"{name} can't be lower than {called or least}"
        raise BadParameter.of("bad-stream-parameter", detail, parameter=name, value=value, allowed=f"{least} or more")
