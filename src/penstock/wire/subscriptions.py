"""Nakadi's HTTP contract of subscriptions: stream parameters, the lines of a stream, cursors, and links between pages.

Events are passed on byte for byte, without decoding them.

Source: Nakadi's subscription API, https://nakadi.io/manual.html.
"""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from penstock.core.registry.definition import Limits
from penstock.core.subscriptions.assignment import FeedPartition, PoisonOffset
from penstock.core.subscriptions.definition import SubscriptionSearch
from penstock.core.subscriptions.delivery import DeliveryBatch, DeliveryRules
from penstock.core.subscriptions.tokens import make_parked_token, make_token
from penstock.errors import BadCursor, BadParameter, UnusablePosition
from penstock.schema.json_text import explain_malformed
from penstock.wire.groups import check_reason
from penstock.wire.log.nakadi import (
    BATCH_LIMIT,
    FLUSH_TIMEOUT,
    NUMBER_MAX,
    STREAM_TIMEOUT_MAX,
    UNUSABLE,
    GivenCursor,
    OffsetExtent,
    cursor_members,
    is_offset,
    join_in_parts,
    make_unusable_cursor,
    offset_text,
    parse_offset,
    parse_partition_number,
    parse_place,
    parse_readable_place,
    require_member,
)
from penstock.wire.query import UNTIL_ELSEWHERE, Query, make_printable, refuse_until

_NEWS: Final = ("Stream started", "skipped events")
"""Prefixes of messages at the beginning of a stream, as opposed to its end."""


class BatchCursor(msgspec.Struct, gc=False):
    """A cursor as a server sends it, and as a client commits it."""

    partition: str
    offset: str
    event_type: str
    cursor_token: str = ""


class BatchInfo(msgspec.Struct, gc=False, omit_defaults=True):
    """Additional information about a batch."""

    debug: str | None = None
    offsets: list[int] | None = None
    """The offsets of the events if they are not contiguous; an extension of Penstock."""
    details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The `EventDetails` of the events, if they were requested; an extension of Penstock."""


class BatchLine(msgspec.Struct, gc=False):
    """One line of a stream: a batch, or without events a keep-alive or the reason for the stream's end."""

    cursor: BatchCursor
    events: list[msgspec.Raw] | None = None
    info: BatchInfo | None = None

    @property
    def debug(self) -> str | None:
        """The server's debug message."""
        return None if self.info is None else self.info.debug

    @property
    def reason(self) -> str | None:
        """The reason for the stream's end, if this line has one.

        >>> BATCHES.decode(
        ...     b'{"cursor":{"partition":"0","offset":"001-0001--1","event_type":"a"},"info":{"debug":"Time is up"}}'
        ... ).reason
        'Time is up'
        """
        return None if self.events or not self.debug or self.debug.startswith(_NEWS) else self.debug


BATCHES: Final = msgspec.json.Decoder(BatchLine)


STREAM_ID: Final = "X-Nakadi-StreamId"
MAX_UNCOMMITTED: Final = 10
COMMIT_TIMEOUT: Final = 60
STREAM_TIMEOUTS: Final = (3_000.0, 4_200.0)
"""Range of the random timeout of streams without one, so that streams that began together do not end together."""
PARKED_MAX: Final = 1_000
"""Maximum number of events that one release gives up."""
END: Final = "END"

_Number = Annotated[int, msgspec.Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]
_Decimal = _Number | Annotated[float, msgspec.Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]


class GivenPartition(msgspec.Struct):
    """A partition that a client requests."""

    event_type: str | None = None
    partition: str | int | None = None


class RawStreamParameters(msgspec.Struct, kw_only=True):
    """Parameters of a stream from a client, not yet validated. Times are in seconds."""

    max_uncommitted_events: _Number | None = None
    batch_limit: _Number | None = None
    stream_limit: _Number | None = None
    batch_flush_timeout: _Decimal | None = None
    batch_timespan: _Number | None = None
    stream_timeout: _Number | None = None
    stream_keep_alive_limit: _Number | None = None
    commit_timeout: _Number | None = None
    partitions: list[GivenPartition] | None = None


class GivenSubscriptionCursor(GivenCursor):
    """A cursor of a subscription from a client, not yet validated."""

    event_type: str | None = None
    cursor_token: str | None = None


class GivenCursors(msgspec.Struct):
    """The cursors of a commit."""

    items: list[GivenSubscriptionCursor | None] | None = None


class GivenReset(msgspec.Struct, forbid_unknown_fields=True):
    """The cursors of a reset."""

    items: list[GivenSubscriptionCursor | None] | None = None
    reason: str | None = None
    dry_run: bool = False


class NakadiReset(GivenReset, forbid_unknown_fields=False):
    """The cursors of a reset, with unknown members ignored, as Nakadi does."""


class GivenPoison(GivenPartition):
    """An event that a consumer gives up, and whose key is to be parked."""

    offset: str | None = None
    attempts: int = 1


class GivenRelease(msgspec.Struct):
    """The partitions that a consumer keeps when it releases a stream, and the events that it gives up."""

    keep: list[GivenPartition] | None = None
    failed: list[GivenPartition] | None = None
    parked: list[GivenPoison] | None = None


class StreamRelease(NamedTuple):
    """A request to end a stream and to free its partitions."""

    keep: Collection[FeedPartition] = ()
    """Partitions that the consumer still handles events of."""
    failed: Collection[FeedPartition] | None = None
    """Partitions that count as failed; None: all."""
    parked: Sequence[PoisonOffset] = ()
    """Events whose keys are to be parked."""


class SubscriptionStreamRequest(NamedTuple):
    """The validated parameters of a stream, with defaults."""

    rules: DeliveryRules
    wants: tuple[FeedPartition, ...]
    """The requested partitions in their order."""


_NUMBERS: Final = tuple(name for name in RawStreamParameters.__struct_fields__ if name != "partitions")


def parse_stream_query(query: Query) -> RawStreamParameters:
    """Parse a stream's parameters from a query.

    Raises:
        BadParameter: A value is not an integer, or of the flush timeout not seconds, or is repeated.
    """
    refuse_until(query, allowed=UNTIL_ELSEWHERE)
    found: dict[str, Any] = {}
    for name in _NUMBERS:
        text = query.find_text(name)
        if text is None:
            continue
        if name == "batch_flush_timeout" and "." in text:
            found[name] = query.read_seconds(name, cut_at=NUMBER_MAX)
            continue
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 10) or abs(int(text)) > NUMBER_MAX:
            raise BadParameter(
                parameter=name, value=make_printable(text), allowed=f"a whole number, up to {NUMBER_MAX}"
            )
        found[name] = int(text)
    return RawStreamParameters(**found)


def parse_stream_body(body: bytes) -> RawStreamParameters:
    """Parse a stream's parameters from a body, which may be empty.

    Raises:
        BadParameter: The body is not JSON, or a value has the wrong type.
    """
    found: RawStreamParameters = _decode(body, RawStreamParameters) if body.strip() else RawStreamParameters()
    return found


def check_stream_parameters(
    given: RawStreamParameters, limits: Limits, *, has_details: bool = False
) -> SubscriptionStreamRequest:
    """Validate a stream's parameters, and fill in defaults.

    Raises:
        BadParameter: A number is invalid, or a partition is requested twice.
    """
    least = {"max_uncommitted_events": 1, "batch_limit": 1} | dict.fromkeys(_NUMBERS[2:], 0)
    for name, low in least.items():
        value = getattr(given, name)
        if value is not None and value < low and name != "stream_timeout":
            raise _make_bad_parameter(name, value, f"{name} can't be lower than {low}", f"{low} or more")
    commit_timeout = given.commit_timeout or COMMIT_TIMEOUT
    if commit_timeout > limits.commit_timeout_max:
        detail = f"commit_timeout can't be higher than {limits.commit_timeout_max}"
        raise _make_bad_parameter("commit_timeout", commit_timeout, detail, f"up to {limits.commit_timeout_max}")
    timeout = given.stream_timeout or 0
    chosen = 0 < timeout <= STREAM_TIMEOUT_MAX
    rules = DeliveryRules(
        max_uncommitted=given.max_uncommitted_events or MAX_UNCOMMITTED,
        batch_limit=given.batch_limit or BATCH_LIMIT,
        stream_limit=given.stream_limit or 0,
        flush_timeout=given.batch_flush_timeout or FLUSH_TIMEOUT,
        timespan_seconds=given.batch_timespan or 0,
        timeout=timeout if chosen else random.uniform(*STREAM_TIMEOUTS),  # noqa: S311
        keep_alive_limit=given.stream_keep_alive_limit or 0,
        commit_timeout=commit_timeout,
        bytes_max=limits.stream_bytes_max,
        has_details=has_details,
    )
    return SubscriptionStreamRequest(rules, _parse_partitions(given.partitions or [], "partitions"))


def parse_cursors(body: bytes) -> GivenCursors:
    """Parse the cursors in a body.

    Raises:
        BadParameter: The body is not JSON, or a value has the wrong type.
    """
    found: GivenCursors = _decode(body, GivenCursors)
    return found


def parse_subscription_reset(body: bytes, *, strict: bool = False) -> GivenReset:
    """Parse a reset; *strict* ignores unknown members, as Nakadi does.

    Raises:
        BadParameter: The body is not JSON, a value has the wrong type, a member is unknown, or the reason is invalid.
    """
    found: GivenReset = _decode(body, NakadiReset if strict else GivenReset)
    check_reason(found.reason)
    return found


def parse_release(body: bytes) -> StreamRelease:
    """Parse a release.

    Raises:
        BadParameter: The body is not JSON, or a value has the wrong type.
        BadParameter: A value is not a partition, or not the offset of an event.
    """
    given: GivenRelease = _decode(body, GivenRelease) if body.strip() else GivenRelease()
    parked = given.parked or []
    if len(parked) > PARKED_MAX:
        raise BadParameter(parameter="parked", value=len(parked), allowed=f"up to {PARKED_MAX} events")
    return StreamRelease(
        _parse_partitions(given.keep or [], "keep"),
        None if given.failed is None else _parse_partitions(given.failed, "failed"),
        [_parse_poison(each, at) for at, each in enumerate(parked)],
    )


def _parse_poison(given: GivenPoison, at: int) -> PoisonOffset:
    place = _parse_partition(given, "parked", at)
    text = given.offset or ""
    try:
        epoch, offset = parse_offset(text)
    except BadCursor:
        epoch, offset = 0, -1
    if offset < 0:
        allowed = f"the offset of the event, as batches have it, such as {offset_text(1, 41)}"
        raise BadParameter(parameter="parked", value=make_printable(text), allowed=allowed)
    if not 1 <= given.attempts <= NUMBER_MAX:
        raise BadParameter(parameter="attempts", value=given.attempts, allowed=f"a whole number from 1 to {NUMBER_MAX}")
    return PoisonOffset(place, epoch, offset, given.attempts)


def parse_committed(
    given: GivenSubscriptionCursor | None, extents: Callable[[str], Sequence[OffsetExtent]], at: str
) -> tuple[FeedPartition, int]:
    """Return the partition and the next offset wanted of a committed cursor; *at* names the cursor in errors.

    *extents* returns the partitions of an event type, and may raise.

    Raises:
        UnusablePosition: The partition does not exist, or a member is missing. The error does not have the available
            offsets, since only the stream's offsets matter.
    """
    name = _require_event_type(given, at)
    assert given is not None
    try:
        found = parse_place(given, extents(name), at)
    except UnusablePosition as error:
        known = {name: error.fields[name] for name in ("partition", "offset", "reason")}
        raise UnusablePosition.of(UNUSABLE, error.detail, **known) from None
    return (name, found.partition), found.position


def parse_reset_target(
    given: GivenSubscriptionCursor | None,
    extents: Callable[[str], Sequence[OffsetExtent]],
    since: Callable[[str, str], Sequence[int]],
    at: str,
) -> tuple[FeedPartition, int]:
    """Return the partition and the next offset wanted of a cursor in a reset.

    The offset must be readable, or `BEGIN`, `END`, or a time, whose offsets *since* returns.

    Raises:
        UnusablePosition: The offset is none of these, or events after it have been removed.
    """
    name = _require_event_type(given, at)
    assert given is not None
    found = extents(name)
    number = parse_partition_number(require_member(given, at, "partition"), found)
    text = require_member(given, at, "offset")
    if is_offset(text):
        return (name, number), parse_readable_place(given, found, at).position
    if text.upper() == END:
        return (name, number), found[number].next_offset
    try:
        return (name, number), since(name, text)[number]
    except BadParameter:
        form = offset_text(found[number].epoch, 41)
        reason = f"it is neither of the form {form} nor BEGIN, END or a time such as 2026-11-20T10:00:00Z"
        raise make_unusable_cursor(UNUSABLE, text, number, found[number], reason) from None


class SubscriptionLines:
    """Writes the lines of one subscription's stream."""

    def __init__(self, secret: bytes, epoch_of: Callable[[str], int]) -> None:
        self._secret = secret
        self._epoch_of = epoch_of

    def parts(self, batches: Iterable[DeliveryBatch]) -> Iterator[bytes]:
        """Return the lines of *batches*, in parts of about `PART_BYTES`; a batch without events is a keep-alive."""
        return join_in_parts(map(self._line, batches))

    def _line(self, batch: DeliveryBatch) -> tuple[bytes, Sequence[bytes], bytes]:
        secret = self._secret
        token = (
            make_parked_token(secret, batch.parked) if batch.parked else make_token(secret, batch.place, batch.position)
        )
        cursor = _cursor_before_token(batch.place, self._epoch_of(batch.place[0]), batch.position)
        before = b'%b"%b"}' % (cursor, token.encode())
        if batch.debug is None and not batch.offsets and batch.details is None:
            return before, batch.events, b"}\n"
        details = msgspec.UNSET if batch.details is None else msgspec.Raw(msgspec.json.encode(batch.details))
        info = BatchInfo(batch.debug, [*batch.offsets] or None, details)
        return before, batch.events, b',"info":%b}\n' % msgspec.json.encode(info)


@lru_cache(maxsize=1024)  # Many subscriptions send the same events at about the same time.
def _cursor_before_token(place: FeedPartition, epoch: int, position: int) -> bytes:
    name, partition = place
    members = cursor_members(partition, epoch, position)
    return b'{"cursor":{%b,"event_type":%b,"cursor_token":' % (members, msgspec.json.encode(name))


def position_object(place: FeedPartition, epoch: int, offset: int) -> dict[str, str]:
    """Return the object of a subscription's position: the offset of the last consumed event."""
    name, partition = place
    return {"partition": str(partition), "offset": offset_text(epoch, offset - 1), "event_type": name}


def planned_object(place: FeedPartition, epoch: int, came_from: int, offset: int) -> dict[str, Any]:
    """Return the object of a position that a reset would set: offsets, and the counts of repeated and skipped events.

    >>> planned_object(("order.placed", 0), 1, 5, 2)["repeated"]
    3
    """
    return position_object(place, epoch, offset) | {
        "came_from": offset_text(epoch, came_from - 1),
        "repeated": max(0, came_from - offset),
        "skipped": max(0, offset - came_from),
    }


def subscription_cursor_object(place: FeedPartition, epoch: int, offset: int, token: str) -> dict[str, str]:
    """Return the object of a subscription's cursor."""
    return position_object(place, epoch, offset) | {"cursor_token": token}


def commit_results(given: Sequence[GivenSubscriptionCursor | None], moved: Sequence[bool]) -> Mapping[str, Any]:
    """Return the result of each committed cursor, in their order."""
    return {
        "items": [
            {"cursor": _drop_missing(each), "result": "committed" if done else "outdated"}
            for each, done in zip(given, moved, strict=True)
            if each is not None
        ]
    }


def _drop_missing(given: GivenSubscriptionCursor) -> dict[str, Any]:
    members = {
        "partition": given.partition,
        "offset": given.offset,
        "event_type": given.event_type,
        "cursor_token": given.cursor_token,
    }
    return {name: value for name, value in members.items() if value is not None}


def _require_event_type(given: GivenSubscriptionCursor | None, at: str) -> str:
    if given is None or given.event_type is None:
        name = at if given is None else f"{at}.event_type"
        raise UnusablePosition.of(
            UNUSABLE, f'Field "{name}" may not be null', partition=None, offset=None, reason=f"{name} is null"
        )
    return given.event_type


def _parse_partitions(given: Sequence[GivenPartition], member: str) -> tuple[FeedPartition, ...]:
    found = [_parse_partition(each, member, at) for at, each in enumerate(given)]
    if len(set(found)) < len(found):
        raise _make_bad_parameter(member, len(found), "Duplicated partition specified", "each partition once")
    return tuple(found)


def _parse_partition(given: GivenPartition, member: str, at: int) -> FeedPartition:
    text = str(given.partition)
    if given.event_type is None or not (
        text.isascii() and text.isdigit() and len(text) <= 9 and str(int(text)) == text
    ):
        detail = f"{member}[{at}] must have event_type and partition, a number in a text"
        raise _make_bad_parameter(member, given.partition, detail, '[{"event_type":"order.placed","partition":"0"}]')
    return given.event_type, int(text)


def _make_bad_parameter(name: str, value: Any, detail: str, allowed: str) -> BadParameter:
    return BadParameter.of("bad-stream-parameter", detail, parameter=name, value=value, allowed=allowed)


def _decode(body: bytes, type: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"the body cannot be read: {explain_malformed(body, error)}"
        allowed = f"a JSON object with {', '.join(type.__struct_encode_fields__)}"
        raise BadParameter(detail, parameter="body", allowed=allowed) from None


def list_pages(
    search: SubscriptionSearch, *, shows: bool, limit: int, offset: int, token: str | None, last: str | None
) -> dict[str, list[tuple[str, object]]]:
    """Return the queries of the previous and the next page; *last* is the id at the end of a full page, else None.

    >>> list_pages(SubscriptionSearch(reader=("service", "x")), shows=False, limit=2, offset=0, token=None, last="b")
    {'next': [('reader', 'service:x'), ('offset', 2), ('limit', 2)]}
    """
    given: list[tuple[str, object]] = [("event_type", name) for name in search.event_types]
    given += [("reader", ":".join(search.reader))] if search.reader else []
    given += [("owning_application", search.owning_application)] if search.owning_application else []
    given += [("show_status", "true")] if shows else []

    def page(name: str, value: object) -> list[tuple[str, object]]:
        return [*given, (name, value), ("limit", limit)]

    if token is not None:
        return {"next": page("token", last)} if last else {}
    before = {"prev": page("offset", max(0, offset - limit))} if offset else {}
    return before | ({"next": page("offset", offset + limit)} if last else {})
