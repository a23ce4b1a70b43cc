"""Nakadi's cursors: how they are given, what they stand for, and how far apart they are (digest of its contract, 4).

A cursor names the last event that was consumed. In our code a position is the next offset wanted: one more.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from penstock.errors import BadParameter, UnusableCursor, UnusableStart
from penstock.schema.json_text import why_malformed
from penstock.wire.nakadi import offset_text, partition_object
from penstock.wire.query import Query, shown

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
