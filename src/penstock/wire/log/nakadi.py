"""Nakadi's shapes of the log: event types, schemas, batches, cursors and streams, as existing clients know them.

A cursor of Nakadi names the last event that was consumed. In our code a position is the next offset wanted: one more.

Source: Nakadi's manual, https://nakadi.io/manual.html, and docs/decisions/nakadi-contract.md where it is silent.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from penstock.core.events.event import EVENTS_MAX, NewEvent
from penstock.core.log.batching import FeedBatch
from penstock.core.subscriptions.delivery import JoinedEvents
from penstock.errors import (
    BadCursor,
    BadParameter,
    BadStreamParameter,
    MalformedBatch,
    TooManyEvents,
    UnusableCursor,
    UnusableStart,
)
from penstock.schema.json_text import BOM, decode, why_malformed
from penstock.wire.query import UNTIL_ELSEWHERE, Query, refuse_until, shown

SCHEMAS_MAX: Final = 1_000
"""How many versions of a schema one answer has at most."""
_OFFSET: Final = re.compile(r"001-([0-9a-f]{4})-(-1|\d{1,18})", re.ASCII)
_split: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_SPACES: Final = b" \t\r\n"


def event_type_object(
    definition: dict[str, Any], *, partition_count: int, created_at: str, updated_at: str
) -> dict[str, Any]:
    """Return an event type as it is shown: what its owner gave, what is not known here included, with defaults."""
    return definition | {"partition_count": partition_count, "created_at": created_at, "updated_at": updated_at}


def offset_text(epoch: int, offset: int) -> str:
    """Return an offset in Nakadi's text: the last one consumed, -1 before the first.

    >>> offset_text(1, 41), offset_text(2, -1)
    ('001-0001-000000000000000041', '001-0002--1')
    """
    return f"001-{epoch:04x}-{offset:018}" if offset >= 0 else f"001-{epoch:04x}--1"


def parse_offset(text: str) -> tuple[int, int]:
    """Return the epoch and the offset of Nakadi's text.

    Raises:
        BadCursor: it is not such a text.

    >>> parse_offset("001-0001-000000000000000041")
    (1, 41)
    """
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise BadCursor(
            parameter="offset", value=shown(text), reason="it is not of the form 001-0001-000000000000000041"
        )
    return int(match[1], 16), int(match[2])


def partition_object(epoch: int, partition: int, floor: int, next_offset: int) -> dict[str, str]:
    """Return a partition as it is shown: its first and its last event; with none, the last lies before the first."""
    return {
        "partition": str(partition),
        "oldest_available_offset": offset_text(epoch, floor),
        "newest_available_offset": offset_text(epoch, next_offset - 1),
    }


def schema_pages(count: int, *, limit: int, offset: int, more: bool) -> dict[str, list[tuple[str, int]]]:
    """Return the queries for the pages before and after one that has *count* schema versions, where there are any.

    *count* may be less than *limit* though there are more: the page after begins where this one has ended.

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
    """Return the events of an array, none of them decoded.

    Raises:
        TooManyEvents: it has more than `EVENTS_MAX`.
        MalformedBatch: it is no JSON array. No event is named: what is wrong may be between two of them.

    >>> [bytes(event.data) for event in parse_batch(b'[{"a":1}, {"a":2}]')]
    [b'{"a":1}', b'{"a":2}']
    """
    if not body.strip(_SPACES).startswith((b"[", BOM)):
        raise _malformed("the body is an array of events: it begins with [")
    if body.count(b"{") > EVENTS_MAX:
        _check_count(body)
    try:
        return [NewEvent(raw) for raw in _split(body)]
    except RecursionError:
        raise _malformed("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed(f"the body is not valid JSON: {why_malformed(body, error)}") from None


def _check_count(body: bytes) -> None:
    """Raise TooManyEvents where the array has more events than one may, before all of them are in memory."""
    text = body.decode(errors="replace")
    at = text.find("[") + 1
    with suppress(ValueError, RecursionError):  # It is no JSON, which is told by whoever reads it whole.
        for _ in range(EVENTS_MAX):
            _, at = _decode_one(text, _BETWEEN.match(text, at).end())  # type: ignore[union-attr]  # It always matches.
        if not text.startswith("]", _BETWEEN.match(text, at).end()):  # type: ignore[union-attr]
            raise TooManyEvents(limit=EVENTS_MAX)


_BETWEEN: Final = re.compile(r"[\s,]*")
_decode_one: Final = json.JSONDecoder().raw_decode


def _malformed(reason: str) -> MalformedBatch:
    # Clients know the text by Nakadi's words, which come first.
    return MalformedBatch(f"Error occurred when parsing event(s). {reason[0].upper()}{reason[1:]}", reason=reason)


def batch_responses(events: Sequence[NewEvent], failed: int, step: str, detail: str) -> list[dict[str, Any]]:
    """Return Nakadi's answer for each event of a batch whose event at *failed* did not pass *step*.

    >>> [each["step"] for each in batch_responses(parse_batch(b"[{},{},{}]"), 1, "validating", "wrong")]
    ['validating', 'validating', 'none']
    """
    before, after = {"validating": ("validating", "none"), "partitioning": ("partitioning", "validating")}[step]
    responses = [
        _response("aborted", before if number < failed else after, "", event) for number, event in enumerate(events)
    ]
    if events:
        responses[failed] = _response("failed", step, detail, events[failed])
    return responses


def aborted_responses(events: Sequence[NewEvent], detail: str) -> list[dict[str, Any]]:
    """Return what is said where the whole batch is refused before any event was looked at."""
    return [_response("aborted", "none", detail, event) for event in events]


def _response(status: str, step: str, detail: str, event: NewEvent) -> dict[str, Any]:
    return {"publishing_status": status, "step": step, "detail": detail, "eid": _eid(event), "partition": None}


def _eid(event: NewEvent) -> str:
    try:
        eid = decode(event.data)["metadata"]["eid"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return ""
    return eid if isinstance(eid, str) else ""


HEADER: Final = "X-nakadi-cursors"
BEGIN: Final = "BEGIN"
OFFSET_MAX: Final = 10**18 - 1
"""The largest that fits into Nakadi's text."""
_VERSIONED: Final = re.compile(r"001-([0-9a-f]{4,8})-(-1|\d{1,18})", re.ASCII)
_PLAIN: Final = re.compile(r"-1|\d{1,18}", re.ASCII)
_FIRST_TIMELINE: Final = 1
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Time = Annotated[datetime, msgspec.Meta(tz=True)]
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Text = str | _Integer | None
Given = TypeVar("Given")


class Extent(NamedTuple):
    """What a partition has."""

    epoch: int
    floor: int
    """The first offset that is still there."""
    next_offset: int
    """Where the partition ends."""


class Place(NamedTuple):
    """Where a cursor stands."""

    partition: int
    position: int
    """The offset wanted next."""


class GivenCursor(msgspec.Struct):
    """A cursor as a client gives it; it is not known yet whether it is one."""

    partition: _Text = None
    offset: _Text = None


class GivenShift(GivenCursor):
    """A cursor, and how many events further the one is that is asked for."""

    shift: _Integer | None = None


class GivenPair(msgspec.Struct):
    """Two cursors whose distance is asked for."""

    initial_cursor: GivenCursor | None = None
    final_cursor: GivenCursor | None = None


def parse_header(text: str) -> list[GivenCursor]:
    """Read the header with which a stream begins at cursors; an empty list and members that are null are refused later.

    Raises:
        BadParameter: it is not a list of cursors in JSON.
        UnusableStart: a cursor in it is null.
    """
    try:
        given = msgspec.json.decode(text.encode("latin-1"), type=list[GivenCursor | None])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        allowed = f"a JSON array such as {_EXAMPLE}"
        detail = f"incorrect syntax of {HEADER} header"
        raise BadParameter(detail, parameter=HEADER, value=shown(text), allowed=allowed) from None
    return [_there(each, f"[{index}]", UnusableStart) for index, each in enumerate(given)]


def parse_list(text: str, parameter: str) -> list[GivenCursor]:
    """Read cursors out of a parameter of the query.

    Raises:
        UnusableCursor: it is not a list of cursors in JSON, or one of them is null.
    """
    try:
        given = msgspec.json.decode(text.encode(), type=list[GivenCursor | None])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        detail = f"parameter {parameter} is not a JSON array such as {_EXAMPLE}: {error}"
        raise UnusableCursor(detail, partition=None, offset=None, reason=str(error)) from None
    return [_there(each, f"{parameter}[{index}]") for index, each in enumerate(given)]


def parse_body(body: bytes, type: type[Given]) -> list[Given]:
    """Read a body that is a list of *type*.

    Raises:
        BadParameter: it is no JSON, or something in it has the wrong type.
        UnusableCursor: a member of the list is null.
    """
    try:
        given: list[Given | None] = msgspec.json.decode(body, type=list[type | None])  # type: ignore[valid-type]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"the body cannot be read: {why_malformed(body, error)}"
        raise BadParameter(detail, parameter="body", allowed="a JSON array") from None
    return [_there(each, f"[{index}]") for index, each in enumerate(given)]


def place(
    given: GivenCursor, extents: Sequence[Extent], at: str = "", *, kind: type[UnusableCursor] = UnusableCursor
) -> Place:
    """Return where a cursor stands in a feed whose partitions are *extents*; *at* is what an error calls it.

    It need not be a place from which can be read: see `readable`.

    Raises:
        UnusableCursor, of the *kind* given: there is no such partition, or the offset is none of this feed.

    >>> place(GivenCursor("0", "001-0001-000000000000000041"), [Extent(1, 0, 99)])
    Place(partition=0, position=42)
    """
    partition = partition_number(member(given, at, "partition", kind), extents, kind)
    text, extent = member(given, at, "offset", kind), extents[partition]
    return Place(partition, _position(text, partition, extent, kind))


def is_offset(text: str) -> bool:
    """Tell whether *text* is an offset by its form, or BEGIN: not whether there is such an event.

    >>> is_offset("001-0001-000000000000000041"), is_offset("41"), is_offset("begin"), is_offset("-5")
    (True, True, True, False)
    """
    return text.upper() == BEGIN or bool(_VERSIONED.fullmatch(text) or _PLAIN.fullmatch(text))


def partition_number(text: str, extents: Sequence[Extent], kind: type[UnusableCursor] = UnusableCursor) -> int:
    """Return the number of a partition.

    Raises:
        UnusableCursor, of the *kind* given: there is none of that name.
    """
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
    if number is None or str(number) != text or number >= len(extents):
        name, last = shown(text), len(extents) - 1
        reason = f"partitions are numbered from 0 to {last}"
        raise kind(f"non existing partition {name}", partition=name, offset=None, reason=reason)
    return number


def readable(
    given: GivenCursor, extents: Sequence[Extent], at: str = "", *, kind: type[UnusableCursor] = UnusableCursor
) -> Place:
    """Return where a cursor stands from which all that follows is still there.

    Raises:
        UnusableCursor, of the *kind* given: as `place`; or retention has removed events after it, or it lies beyond
            the newest event.
    """
    found = place(given, extents, at, kind=kind)
    extent = extents[found.partition]
    if extent.floor <= found.position <= extent.next_offset:
        return found
    lost, text = extent.floor - found.position, str(given.offset)
    reason = f"retention has removed {lost} events after it" if lost > 0 else "it is beyond the newest event"
    raise unusable(kind, text, found.partition, extent, reason)


def check_distinct(places: Sequence[Place], kind: type[UnusableCursor] = UnusableCursor) -> None:
    """Raise UnusableCursor, of the *kind* given, where two cursors are of one partition."""
    seen: set[int] = set()
    for partition, _ in places:
        if partition in seen:
            reason = f"partition {partition} has more than one cursor"
            raise kind(reason, partition=str(partition), offset=None, reason=reason)
        seen.add(partition)


def parse_at(query: Query) -> int:
    """Return the time that is asked for, in microseconds since 1970, UTC.

    Raises:
        BadParameter: it is missing, or no time with a zone as RFC 3339 writes it.
    """
    return parse_time(query.text("at"), "at", "; in a URL, + is written %2B")


def parse_time(text: str | None, parameter: str, advice: str = "") -> int:
    """Return the time that *text* is, in microseconds since 1970, UTC; *parameter* is what an error calls it.

    Raises:
        BadParameter: it is no time with a zone as RFC 3339 writes it.

    >>> parse_time("1970-01-01T01:00:01.5+01:00", "at")
    1500000
    """
    try:
        at = msgspec.convert(text, _Time)
    except (msgspec.ValidationError, UnicodeError):
        value = None if text is None else shown(text)
        allowed = f"a time as RFC 3339 has it, such as 2026-11-20T10:00:00Z{advice}"
        raise BadParameter(parameter=parameter, value=value, allowed=allowed) from None
    return (at - _BEGINNING) // timedelta(microseconds=1)


def cursor_object(epoch: int, place: Place) -> dict[str, str]:
    """Return a cursor as it is shown."""
    return {"partition": str(place.partition), "offset": offset_text(epoch, place.position - 1)}


def partition_shown(extent: Extent, partition: int, position: int | None = None) -> dict[str, str | int]:
    """Return a partition as it is shown; with a consumer's *position*, how many events that has not consumed."""
    found: dict[str, str | int] = {**partition_object(extent.epoch, partition, extent.floor, extent.next_offset)}
    return found if position is None else found | {"unconsumed_events": extent.next_offset - position}


def distance(given: GivenPair, extents: Sequence[Extent], at: str) -> dict[str, Any]:
    """Return two cursors and how many events lie between them, less than 0 where the final one is the earlier.

    Raises:
        UnusableCursor: one of them is missing or none of this feed, or they are of two partitions.
    """
    ends = {"initial_cursor": given.initial_cursor, "final_cursor": given.final_cursor}
    known = {name: _there(cursor, f"{at}.{name}") for name, cursor in ends.items()}
    initial, final = (place(cursor, extents, f"{at}.{name}") for name, cursor in known.items())
    if initial.partition != final.partition:
        reason = "the two cursors are of different partitions"
        partition, offset = str(final.partition), str(known["final_cursor"].offset)
        raise UnusableCursor(f"{at}: {reason}", partition=partition, offset=offset, reason=reason)
    shapes = {name: {"partition": str(c.partition), "offset": str(c.offset)} for name, c in known.items()}
    return {**shapes, "distance": final.position - initial.position}


def shifted(given: GivenShift, extents: Sequence[Extent], at: str) -> dict[str, str]:
    """Return the cursor so many events further on, or back: beyond the newest event, too.

    Raises:
        UnusableCursor: it is none of this feed, or would lie before the first event that there ever was.
    """
    start = place(given, extents, at)
    position = start.position + (given.shift or 0)
    if not 0 <= position <= OFFSET_MAX + 1:
        reason = f"{given.shift} events from it there is no offset"
        raise unusable(UnusableCursor, str(given.offset), start.partition, extents[start.partition], reason)
    return cursor_object(extents[start.partition].epoch, Place(start.partition, position))


_EXAMPLE: Final = '[{"partition":"0","offset":"BEGIN"}]'


def _there(given: Given | None, at: str, kind: type[UnusableCursor] = UnusableCursor) -> Given:
    if given is None:
        raise _null(at, kind)
    return given


def member(given: GivenCursor, at: str, name: str, kind: type[UnusableCursor] = UnusableCursor) -> str:
    """Return a member of a cursor as text.

    Raises:
        UnusableCursor, of the *kind* given: it is null.
    """
    value: _Text = getattr(given, name)
    if value is None:
        raise _null(f"{at}.{name}" if at else name, kind)
    return str(value)


def _null(at: str, kind: type[UnusableCursor]) -> UnusableCursor:
    return kind(f'Field "{at}" may not be null', partition=None, offset=None, reason=f"{at} is null")


def _position(text: str, partition: int, extent: Extent, kind: type[UnusableCursor]) -> int:
    if text.upper() == BEGIN:
        return extent.floor
    if match := _VERSIONED.fullmatch(text):
        epoch, number = int(match[1], 16), int(match[2])
    elif _PLAIN.fullmatch(text):  # As Nakadi wrote them before it had timelines.
        epoch, number = _FIRST_TIMELINE, int(text)
    else:
        reason = f"it is neither of the form {offset_text(extent.epoch, 41)} nor {BEGIN}"
        raise unusable(kind, text, partition, extent, reason)
    if epoch != extent.epoch:
        reason = f"it is of the feed's epoch {epoch}, which is now {extent.epoch}"
        raise unusable(kind, text, partition, extent, reason)
    return number + 1


def unusable(kind: type[UnusableCursor], text: str, partition: int, extent: Extent, reason: str) -> UnusableCursor:
    """Return the error, of the *kind* given, of a cursor whose offset is *text*; it tells which offsets there are."""
    known = partition_object(extent.epoch, partition, extent.floor, extent.next_offset)
    return kind(**known | {"partition": str(partition)}, offset=shown(text), reason=reason)


MEDIA_TYPE: Final = "application/x-json-stream"
BATCH_LIMIT: Final = 1
FLUSH_SECONDS: Final = 30
TIMEOUT_SECONDS_MAX: Final = 4_200
NUMBER_MAX: Final = 2**31 - 1
PART_BYTES: Final = 256 << 10
"""Lines are made in parts of about this size: one line may be as large as all that a stream may hold."""
_NUMBER: Final = re.compile(r"-?\d{1,10}", re.ASCII)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream is asked for, checked, with the defaults filled in. Times are seconds."""

    batch_limit: int
    stream_limit: int
    """0: none."""
    batch_flush_timeout: int
    stream_timeout: int | None
    """None: it is left to the hub."""
    stream_keep_alive_limit: int
    """0: none."""


def parse_stream(query: Query) -> Asked:
    """Read a stream's parameters.

    Raises:
        BadParameter: one of them is no whole number, or is given twice; or there is an `until`.
        BadStreamParameter: they are numbers that make no sense, alone or together.
    """
    refuse_until(query, allowed=UNTIL_ELSEWHERE)
    batch_limit = _number(query, "batch_limit", BATCH_LIMIT)
    stream_limit = _number(query, "stream_limit", 0)
    flush = _number(query, "batch_flush_timeout", FLUSH_SECONDS) or FLUSH_SECONDS
    timeout = _number(query, "stream_timeout", 0)
    keep_alives = _number(query, "stream_keep_alive_limit", 0)
    _check_least("batch_limit", batch_limit, 1)
    _check_least("batch_flush_timeout", flush, 0)
    _check_least("stream_keep_alive_limit", keep_alives, 0)
    if stream_limit != 0:
        _check_least("stream_limit", stream_limit, batch_limit, "batch_limit")
    is_chosen = 0 < timeout <= TIMEOUT_SECONDS_MAX
    if is_chosen:
        _check_least("stream_timeout", timeout, flush, "batch_flush_timeout")
    return Asked(
        batch_limit=batch_limit,
        stream_limit=stream_limit,
        batch_flush_timeout=flush,
        stream_timeout=timeout if is_chosen else None,
        stream_keep_alive_limit=keep_alives,
    )


class Lines:
    """Writes the lines of one stream."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def parts(self, batches: Iterable[FeedBatch]) -> Iterator[bytes]:
        r"""Return the lines of *batches*, a keep-alive for one without events, in parts of about `PART_BYTES`.

        >>> b"".join(Lines(1).parts([FeedBatch(0, 2, [b'{"n":0}', b'{"n":1}'])]))
        b'{"cursor":{"partition":"0","offset":"001-0001-000000000000000001"},"events":[{"n":0},{"n":1}]}\n'
        >>> b"".join(Lines(1).parts([FeedBatch(0, 0, [])]))
        b'{"cursor":{"partition":"0","offset":"001-0001--1"}}\n'
        """
        return in_parts(
            (b'{"cursor":{%b}' % cursor_members(partition, self._epoch, position), events, b"}\n")
            for partition, position, events in batches
        )


def cursor_members(partition: int, epoch: int, position: int) -> bytes:
    """Return the members of a cursor that every one has, for the offset wanted next."""
    offset = b"%018d" % (position - 1) if position else b"-1"
    return b'"partition":"%d","offset":"001-%04x-%b"' % (partition, epoch, offset)


def in_parts(lines: Iterable[tuple[bytes, Sequence[bytes], bytes]]) -> Iterator[bytes]:
    """Join lines in parts of about `PART_BYTES`: of each what comes before its events, these, and what comes after.

    Events that are a part by themselves are handed on as they are: to join them would copy them all.
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
    """Return a batch's events up to before the end of their array, joined as far as a part has room."""
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


def _number(query: Query, name: str, default: int) -> int:
    text = query.text(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or abs(int(text)) > NUMBER_MAX:
        raise BadParameter(parameter=name, value=shown(text), allowed=f"a whole number, up to {NUMBER_MAX}")
    return int(text)


def _check_least(name: str, value: int, least: int, called: str | None = None) -> None:
    if value < least:
        detail = f"{name} can't be lower than {called or least}"
        raise BadStreamParameter(detail, parameter=name, value=value, allowed=f"{least} or more")
