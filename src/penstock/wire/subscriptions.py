"""Nakadi's shapes of subscriptions: stream parameters, the lines of a stream, cursors, and links between list pages.

Events are passed on byte for byte, without being decoded.

Source: Nakadi's subscription API, https://nakadi.io/manual.html.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from penstock.core.registry.definition import Limits
from penstock.core.subscriptions.assignment import FeedPartition, parked_token_of, token_of
from penstock.core.subscriptions.definition import SubscriptionSearch
from penstock.core.subscriptions.delivery import DeliveryBatch, DeliveryRules
from penstock.errors import BadParameter, BadStreamParameter, UnusableCursor
from penstock.schema.json_text import why_malformed
from penstock.wire.groups import check_reason
from penstock.wire.log.nakadi import (
    BATCH_LIMIT,
    FLUSH_SECONDS,
    NUMBER_MAX,
    TIMEOUT_SECONDS_MAX,
    Extent,
    GivenCursor,
    cursor_members,
    in_parts,
    is_offset,
    member,
    offset_text,
    partition_number,
    place,
    readable,
    unusable,
)
from penstock.wire.query import UNTIL_ELSEWHERE, Query, refuse_until, shown

_NEWS: Final = ("Stream started", "skipped events")
"""With these begins what is said at the beginning of a stream, rather than at its end."""


class BatchCursor(msgspec.Struct, gc=False):
    """A cursor as a server sends it, and as it is given back."""

    partition: str
    offset: str
    event_type: str
    cursor_token: str = ""


class BatchInfo(msgspec.Struct, gc=False, omit_defaults=True):
    """What a server says beside a batch."""

    debug: str | None = None
    offsets: list[int] | None = None
    """Those of the events, where these do not follow each other up to the cursor's: a member of our own."""


class BatchLine(msgspec.Struct, gc=False):
    """One line of a stream: a batch; or, without events, a sign of life, or why the stream ends."""

    cursor: BatchCursor
    events: list[msgspec.Raw] | None = None
    info: BatchInfo | None = None

    @property
    def debug(self) -> str | None:
        """What the server says beside it."""
        return None if self.info is None else self.info.debug

    @property
    def reason(self) -> str | None:
        """Why the stream ends, where this line says so.

        >>> BATCHES.decode(
        ...     b'{"cursor":{"partition":"0","offset":"001-0001--1","event_type":"a"},"info":{"debug":"Time is up"}}'
        ... ).reason
        'Time is up'
        """
        return None if self.events or not self.debug or self.debug.startswith(_NEWS) else self.debug


BATCHES: Final = msgspec.json.Decoder(BatchLine)


STREAM_ID: Final = "X-Nakadi-StreamId"
MAX_UNCOMMITTED: Final = 10
COMMIT_SECONDS: Final = 60
TIMEOUT_SECONDS: Final = (3_000.0, 4_200.0)
"""When a stream ends that has not said when: at random, so that those that began together do not end together."""
END: Final = "END"
NO_TIME: Final = "no time"

_Number = Annotated[int, msgspec.Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]


class GivenPartition(msgspec.Struct):
    """A partition that a stream asks for."""

    event_type: str | None = None
    partition: str | int | None = None


class Given(msgspec.Struct, kw_only=True):
    """What a stream is asked for, as a client gives it. Times are seconds."""

    max_uncommitted_events: _Number | None = None
    batch_limit: _Number | None = None
    stream_limit: _Number | None = None
    batch_flush_timeout: _Number | None = None
    batch_timespan: _Number | None = None
    stream_timeout: _Number | None = None
    stream_keep_alive_limit: _Number | None = None
    commit_timeout: _Number | None = None
    partitions: list[GivenPartition] | None = None


class GivenSubscriptionCursor(GivenCursor):
    """A cursor of a subscription as a client gives it; it is not known yet whether it is one."""

    event_type: str | None = None
    cursor_token: str | None = None


class GivenCursors(msgspec.Struct):
    """What a client commits."""

    items: list[GivenSubscriptionCursor | None] | None = None


class GivenReset(msgspec.Struct, forbid_unknown_fields=True):
    """What somebody resets to."""

    items: list[GivenSubscriptionCursor | None] | None = None
    reason: str | None = None
    dry_run: bool = False


class NakadiReset(GivenReset, forbid_unknown_fields=False):
    """The same, of which members that it does not have are passed over, as Nakadi does."""


class GivenRelease(msgspec.Struct):
    """What a consumer gives back of a stream."""

    keep: list[GivenPartition] | None = None
    failed: list[GivenPartition] | None = None


class Asked(NamedTuple):
    """What a stream is asked for, checked, with the defaults filled in."""

    rules: DeliveryRules
    wants: tuple[FeedPartition, ...]
    """In the order in which they were asked for."""


_NUMBERS: Final = tuple(name for name in Given.__struct_fields__ if name != "partitions")


def given_by_query(query: Query) -> Given:
    """Read a stream's parameters from a query.

    Raises:
        BadParameter: one of them is no whole number, or is given twice; or there is an `until`.
    """
    refuse_until(query, allowed=UNTIL_ELSEWHERE)
    found: dict[str, Any] = {}
    for name in _NUMBERS:
        text = query.text(name)
        if text is None:
            continue
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 10) or abs(int(text)) > NUMBER_MAX:
            raise BadParameter(parameter=name, value=shown(text), allowed=f"a whole number, up to {NUMBER_MAX}")
        found[name] = int(text)
    return Given(**found)


def given_by_body(body: bytes) -> Given:
    """Read a stream's parameters from a body, which may be empty.

    Raises:
        BadParameter: it is no JSON, or something in it has the wrong type.
    """
    found: Given = _decoded(body, Given) if body.strip() else Given()
    return found


def asked_of(given: Given, limits: Limits) -> Asked:
    """Check what a stream is asked for, and fill in the defaults.

    Raises:
        BadStreamParameter: a number makes no sense, or a partition is asked for twice.
    """
    least = {"max_uncommitted_events": 1, "batch_limit": 1} | dict.fromkeys(_NUMBERS[2:], 0)
    for name, low in least.items():
        value = getattr(given, name)
        if value is not None and value < low and name != "stream_timeout":
            raise _bad(name, value, f"{name} can't be lower than {low}", f"{low} or more")
    commit_timeout = given.commit_timeout or COMMIT_SECONDS
    if commit_timeout > limits.commit_timeout_max:
        detail = f"commit_timeout can't be higher than {limits.commit_timeout_max}"
        raise _bad("commit_timeout", commit_timeout, detail, f"up to {limits.commit_timeout_max}")
    timeout = given.stream_timeout or 0
    chosen = 0 < timeout <= TIMEOUT_SECONDS_MAX
    rules = DeliveryRules(
        max_uncommitted=given.max_uncommitted_events or MAX_UNCOMMITTED,
        batch_limit=given.batch_limit or BATCH_LIMIT,
        stream_limit=given.stream_limit or 0,
        flush_timeout=given.batch_flush_timeout or FLUSH_SECONDS,
        timespan_seconds=given.batch_timespan or 0,
        timeout=timeout if chosen else random.uniform(*TIMEOUT_SECONDS),  # noqa: S311
        keep_alive_limit=given.stream_keep_alive_limit or 0,
        commit_timeout=commit_timeout,
        bytes_max=limits.stream_bytes_max,
    )
    return Asked(rules, _wanted(given.partitions or [], "partitions"))


def parse_cursors(body: bytes) -> GivenCursors:
    """Read the cursors of a body.

    Raises:
        BadParameter: it is no JSON, or something in it has the wrong type.
    """
    found: GivenCursors = _decoded(body, GivenCursors)
    return found


def parse_subscription_reset(body: bytes, *, strict: bool = False) -> GivenReset:
    """Read where a subscription is to be reset to; *strict*: pass over unknown names, as Nakadi does.

    Raises:
        BadParameter: it is no JSON, or something in it has the wrong type or an unknown name, or the reason is none.
    """
    found: GivenReset = _decoded(body, NakadiReset if strict else GivenReset)
    check_reason(found.reason)
    return found


def parse_release(body: bytes) -> tuple[tuple[FeedPartition, ...], tuple[FeedPartition, ...] | None]:
    """Read which partitions a consumer keeps that gives a stream back, and which have failed; None: all of them.

    Raises:
        BadParameter: it is no JSON, or something in it has the wrong type.
        BadStreamParameter: something in it is no partition.
    """
    given: GivenRelease = _decoded(body, GivenRelease) if body.strip() else GivenRelease()
    return _wanted(given.keep or [], "keep"), None if given.failed is None else _wanted(given.failed, "failed")


def committed_place(
    given: GivenSubscriptionCursor | None, extents: Callable[[str], Sequence[Extent]], at: str
) -> tuple[FeedPartition, int]:
    """Return the partition and the offset wanted next of a cursor; *at* is what an error calls it.

    *extents* says which partitions an event type has, and may raise.

    Raises:
        UnusableCursor: it is none of these partitions, or a member is missing. It does not say which offsets there are:
            nobody has looked, for what counts is what the stream was sent.
    """
    name = _event_type(given, at)
    assert given is not None
    try:
        found = place(given, extents(name), at)
    except UnusableCursor as error:
        known = {name: error.fields[name] for name in ("partition", "offset", "reason")}
        raise UnusableCursor(error.detail, **known) from None
    return (name, found.partition), found.position


def reset_place(
    given: GivenSubscriptionCursor | None,
    extents: Callable[[str], Sequence[Extent]],
    since: Callable[[str, str], Sequence[int]],
    at: str,
) -> tuple[FeedPartition, int]:
    """Return the partition and the offset wanted next of a cursor to which somebody resets.

    Its offset is one that can be read from, or `BEGIN`, or `END`, or a time, of which *since* gives the offsets.

    Raises:
        UnusableCursor: it is none of these, or what follows it is not all there.
    """
    name = _event_type(given, at)
    assert given is not None
    found = extents(name)
    number = partition_number(member(given, at, "partition"), found)
    text = member(given, at, "offset")
    if is_offset(text):
        return (name, number), readable(given, found, at).position
    if text.upper() == END:
        return (name, number), found[number].next_offset
    try:
        return (name, number), since(name, text)[number]
    except BadParameter:
        form = offset_text(found[number].epoch, 41)
        reason = f"it is neither of the form {form} nor BEGIN, END or a time such as 2026-11-20T10:00:00Z"
        raise unusable(UnusableCursor, text, number, found[number], reason) from None


class Lines:
    """Writes the lines of one stream."""

    def __init__(self, secret: bytes, epoch_of: Callable[[str], int]) -> None:
        self._secret = secret
        self._epoch_of = epoch_of

    def parts(self, batches: Iterable[DeliveryBatch]) -> Iterator[bytes]:
        """Return the lines of *batches*, a keep-alive for one without events, in parts of about `PART_BYTES`."""
        return in_parts(map(self._line, batches))

    def _line(self, batch: DeliveryBatch) -> tuple[bytes, Sequence[bytes], bytes]:
        secret = self._secret
        token = parked_token_of(secret, batch.parked) if batch.parked else token_of(secret, batch.place, batch.position)
        cursor = _cursor_before_token(batch.place, self._epoch_of(batch.place[0]), batch.position)
        before = b'%b"%b"}' % (cursor, token.encode())
        if batch.debug is None and not batch.offsets:
            return before, batch.events, b"}\n"
        info = BatchInfo(batch.debug, [*batch.offsets] or None)
        return before, batch.events, b',"info":%b}\n' % msgspec.json.encode(info)


@lru_cache(maxsize=1024)  # The streams of many subscriptions are sent the same events at about the same time.
def _cursor_before_token(place: FeedPartition, epoch: int, position: int) -> bytes:
    name, partition = place
    members = cursor_members(partition, epoch, position)
    return b'{"cursor":{%b,"event_type":%b,"cursor_token":' % (members, msgspec.json.encode(name))


def position_shown(place: FeedPartition, epoch: int, offset: int) -> dict[str, str]:
    """Return where a subscription stands in a partition, as it is shown: behind the last event consumed."""
    name, partition = place
    return {"partition": str(partition), "offset": offset_text(epoch, offset - 1), "event_type": name}


def cursor_shown(place: FeedPartition, epoch: int, offset: int, token: str) -> dict[str, str]:
    """Return a cursor of a subscription as it is shown."""
    return position_shown(place, epoch, offset) | {"cursor_token": token}


def results_shown(given: Sequence[GivenSubscriptionCursor | None], moved: Sequence[bool]) -> Mapping[str, Any]:
    """Return what has become of the cursors that were committed, in their order."""
    return {
        "items": [
            {"cursor": _as_sent(each), "result": "committed" if done else "outdated"}
            for each, done in zip(given, moved, strict=True)
            if each is not None
        ]
    }


def _as_sent(given: GivenSubscriptionCursor) -> dict[str, Any]:
    members = {
        "partition": given.partition,
        "offset": given.offset,
        "event_type": given.event_type,
        "cursor_token": given.cursor_token,
    }
    return {name: value for name, value in members.items() if value is not None}


def _event_type(given: GivenSubscriptionCursor | None, at: str) -> str:
    if given is None or given.event_type is None:
        name = at if given is None else f"{at}.event_type"
        raise UnusableCursor(f'Field "{name}" may not be null', partition=None, offset=None, reason=f"{name} is null")
    return given.event_type


def _wanted(given: Sequence[GivenPartition], member: str) -> tuple[FeedPartition, ...]:
    found = []
    for at, each in enumerate(given):
        text = str(each.partition)
        if each.event_type is None or not (
            text.isascii() and text.isdigit() and len(text) <= 9 and str(int(text)) == text
        ):
            detail = f"{member}[{at}] must have event_type and partition, a number in a text"
            raise _bad(member, each.partition, detail, '[{"event_type":"order.placed","partition":"0"}]')
        found.append((each.event_type, int(text)))
    if len(set(found)) < len(found):
        raise _bad(member, len(found), "Duplicated partition specified", "each partition once")
    return tuple(found)


def _bad(name: str, value: Any, detail: str, allowed: str) -> BadStreamParameter:
    return BadStreamParameter(detail, parameter=name, value=value, allowed=allowed)


def _decoded(body: bytes, type: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"the body cannot be read: {why_malformed(body, error)}"
        allowed = f"a JSON object with {', '.join(type.__struct_encode_fields__)}"
        raise BadParameter(detail, parameter="body", allowed=allowed) from None


def list_pages(
    search: SubscriptionSearch, *, shows: bool, limit: int, offset: int, token: str | None, last: str | None
) -> dict[str, list[tuple[str, object]]]:
    """Return the queries for the pages before and after one; *last* is the id that a full page ends with, else None.

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
