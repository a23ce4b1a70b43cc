r"""Server-sent events: a feed as a stream of messages, which browsers read with `EventSource`.

The id of a message is the cursor just after its event: of one partition its own, of several all of them, joined by
`penstock.core.log.cursor.join_cursors`. So the header `Last-Event-ID` continues every partition. A message without data
moves the reader's position, and shows it nothing.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, and docs/reference/http/server-sent-events.md.

Invariants:
    A message is whole: no line break of an event or a kind ends one of its lines.
"""

from collections.abc import Iterable
from itertools import chain, pairwise, repeat
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.log.cursor import LAST, split_cursors
from penstock.core.log.details import EventDetails
from penstock.errors import BadParameter
from penstock.wire.log.feedapi import FeedApiRead
from penstock.wire.log.zeroeventhub import ZeroEventHubRead, read_cursors, read_partition_count
from penstock.wire.query import Query, check_cursor_text, make_printable, parse_kinds, refuse_until

EVENT_STREAM: Final = "text/event-stream"
"""Media type of server-sent events."""
LAST_EVENT_ID: Final = "Last-Event-ID"
LAST_EVENT_ID_PARAMETER: Final = "last-event-id"
"""The parameter for readers that cannot set the header; the header wins."""
PROBLEM_EVENT: Final = "penstock-problem"
"""The name of the last message of a stream that ends with an error. No event of a feed has it."""
HEARTBEAT_SECONDS: Final = 50.0
"""Before the time-outs of most proxies, which end a silent connection after 60 seconds."""
HEARTBEAT_SECONDS_MAX: Final = 600.0
PARTITIONS_MAX: Final = 256
"""Upper bound of the partitions in one stream: the id has a place for each, and is sent back in a header."""
STEP_EVENTS: Final = 4_096
"""Upper bound of the events that are read at a time."""
HEARTBEAT: Final = b":\n\n"
_PAGES_ONLY: Final = ("cursorset", "resume", "store_cursor", "headers")
_encode: Final = msgspec.json.Encoder().encode
_ONE_LINE: Final = bytes.maketrans(b"\r\n\0", b"   ")


class EventSourceOptions(NamedTuple):
    """Parameters of a stream of server-sent events besides those that pages have."""

    id_parameter: str | None
    """The header or parameter that the cursors are from; None: each has a parameter of its own."""
    heartbeat_interval: float
    """A stream that has been silent for so many seconds sends a comment."""
    is_unnamed: bool
    """Whether messages are without the kinds of their events, so that `onmessage` gets them all."""
    has_details: bool
    """Whether the data of a message is the event with where it is, its kind, its key and when it was received."""


def parse_v1(query: Query, last_event_id: str | None) -> tuple[ZeroEventHubRead, EventSourceOptions]:
    """Parse a request for a stream by the parameters of ZeroEventHub v1; *last_event_id* is the header.

    Without n the feed is one partition. Without cursors all partitions are read, from where they end.

    Raises:
        BadPartitionCount, BadParameter, BadCursor: See `penstock.wire.log.zeroeventhub.parse_read`.
    """
    _refuse_parameters_of_pages(query)
    refuse_until(query, allowed="until only with pages: a stream has no end")
    n = 1 if query.find_text("n") is None else read_partition_count(query)
    cursors = read_cursors(query, n) or dict.fromkeys(range(n), LAST)
    if len(cursors) > PARTITIONS_MAX:
        allowed = f"at most {PARTITIONS_MAX} partitions in one stream"
        raise BadParameter(parameter="n", value=n, allowed=allowed, n=n)
    id_parameter, text = _read_last_event_id(query, last_event_id)
    if id_parameter is not None:
        cursors = split_cursors(text, cursors, id_parameter)
    asked = ZeroEventHubRead(
        n=n,
        cursors=cursors,
        resume=(),
        until={},
        page_size=STEP_EVENTS,
        headers=None,
        kinds=parse_kinds(query),
        cursorset=None,
        wait_seconds=0.0,
        has_details=False,
    )
    return asked, _read_options(query, id_parameter)


def parse_v2(query: Query, last_event_id: str | None) -> tuple[FeedApiRead, EventSourceOptions]:
    """Parse a request for a stream by the parameters of FeedAPI v2; *last_event_id* is the header.

    Without a cursor the partition is read from where it ends.

    Raises:
        BadParameter, BadCursor: See `penstock.wire.log.feedapi.parse_read`.
    """
    _refuse_parameters_of_pages(query)
    refuse_until(query, allowed="until only with pages: a stream has no end")
    token = query.find_text("token")
    if token is None:
        raise BadParameter(
            parameter="token", value=None, allowed="the token that discovery gives: GET the feed without arguments"
        )
    partition = query.read_integer("partition", None, low=0, high=32_767)
    cursor = query.read_cursor("cursor") or LAST
    id_parameter, text = _read_last_event_id(query, last_event_id)
    if id_parameter is not None:
        cursor = split_cursors(text, [partition], id_parameter)[partition]
    asked = FeedApiRead(
        token=token,
        partition=partition,
        cursor=cursor,
        until=None,
        page_size=STEP_EVENTS,
        headers=None,
        kinds=parse_kinds(query),
        wait_seconds=0.0,
        has_details=False,
    )
    return asked, _read_options(query, id_parameter)


def _refuse_parameters_of_pages(query: Query) -> None:
    """Raise BadParameter if *query* has a parameter without which it would mean something else."""
    for name in _PAGES_ONLY:
        if (text := query.find_text(name)) is not None:
            allowed = f"{name} only with pages, not with {EVENT_STREAM}"
            raise BadParameter(parameter=name, value=make_printable(text), allowed=allowed)


def _read_last_event_id(query: Query, header: str | None) -> tuple[str | None, str]:
    """Return the header or parameter with the id to continue from, and the id; None and empty if there is none."""
    if header:
        return LAST_EVENT_ID, check_cursor_text(header, LAST_EVENT_ID)
    text = query.read_cursor(LAST_EVENT_ID_PARAMETER)
    return (None, "") if text is None else (LAST_EVENT_ID_PARAMETER, text)


def _read_options(query: Query, id_parameter: str | None) -> EventSourceOptions:
    heartbeat = HEARTBEAT_SECONDS
    if (text := query.find_text("heartbeat")) is not None:
        heartbeat = query.read_seconds("heartbeat", cut_at=HEARTBEAT_SECONDS_MAX)
        if heartbeat < 1:
            allowed = f"seconds, 1 or more (cut at {HEARTBEAT_SECONDS_MAX:g})"
            raise BadParameter(parameter="heartbeat", value=make_printable(text), allowed=allowed)
    return EventSourceOptions(id_parameter, heartbeat, query.read_flag("unnamed"), query.read_flag("details"))


def event_messages(
    frame: tuple[bytes, bytes], rows: Iterable[tuple[int, bytes | None, bytes]], *, default_kind: bytes
) -> bytes:
    r"""Return the messages of events, each an offset, its kind and its data, named by their kinds.

    *frame* is the text of their ids before and after the next offset. *default_kind* is that of events without one.

    >>> event_messages((b"1-a-1-1-1-0-", b""), [(7, None, b'{"a":1}')], default_kind=b"order.placed")
    b'id: 1-a-1-1-1-0-8\nevent: order.placed\ndata: {"a":1}\n\n'
    """
    before, after = frame
    return b"".join([
        b"id: %b%d%b\n%bdata: %b\n\n" % (before, offset + 1, after, _name(kind or default_kind), data)
        for offset, kind, data in rows
    ])  # fmt: skip


def _name(kind: bytes) -> bytes:
    """Return the line that names a message after *kind*, unless the name would make it one of the hub's own."""
    name = kind.translate(_ONE_LINE)
    return b"" if name == PROBLEM_EVENT.encode() else b"event: %b\n" % name


def unnamed_messages(frame: tuple[bytes, bytes], rows: Iterable[tuple[int, bytes]]) -> bytes:
    r"""Return the messages of events, each an offset and its data, without names.

    >>> unnamed_messages((b"1-a-1-2-1-0-", b"_9"), [(7, b'{"a":1}')])
    b'id: 1-a-1-2-1-0-8_9\ndata: {"a":1}\n\n'
    """
    before, after = frame
    return b"".join([b"id: %b%d%b\ndata: %b\n\n" % (before, offset + 1, after, data) for offset, data in rows])


class DetailedEvent(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The data of a message of an event with details."""

    partition: int
    offset: int
    received_at: int
    """When the hub received it, in microseconds since 1970, UTC."""
    kind: str
    key: str | None = None
    data: msgspec.Raw


def detailed_messages(
    frame: tuple[bytes, bytes], partition: int, details: EventDetails, data: Iterable[bytes], *, is_unnamed: bool
) -> bytes:
    r"""Return the messages of events of one *partition*, each with its own of the *details*.

    >>> details = EventDetails("b", [1], [1500], 7, keys=["a"])
    >>> detailed_messages((b"1-a-1-1-1-0-", b""), 0, details, [b'{"a":1}'], is_unnamed=True)
    b'id: 1-a-1-1-1-0-8\ndata: {"partition":0,"offset":7,"received_at":1500,"kind":"b","key":"a","data":{"a":1}}\n\n'
    """
    before, after = frame
    found = []
    runs = zip(details.received_at, pairwise([0, *details.ends]), strict=True)
    times = chain.from_iterable(repeat(at, end - start) for at, (start, end) in runs)
    for at, (received_at, event) in enumerate(zip(times, data, strict=True)):
        offset, kind = details.offset_of(at), details.kind_of(at)
        text = _encode(
            DetailedEvent(
                partition=partition,
                offset=offset,
                received_at=received_at,
                kind=kind,
                key=details.key_of(at),
                data=msgspec.Raw(event),
            )
        )
        name = b"" if is_unnamed else _name(kind.encode())
        found.append(b"id: %b%d%b\n%bdata: %b\n\n" % (before, offset + 1, after, name, text))
    return b"".join(found)


def first_message(position: str, retry_seconds: float) -> bytes:
    r"""Return the first message of a stream: where it begins, and after how long to come again.

    >>> first_message("1-a-1-1-1-0-7", 2.5)
    b'retry: 2500\nid: 1-a-1-1-1-0-7\n\n'
    """
    return b"retry: %d\n%b" % (round(retry_seconds * 1_000), position_message(position))


def position_message(position: str) -> bytes:
    r"""Return a message that moves the reader's position and shows it nothing.

    >>> position_message("1-a-1-1-1-0-7")
    b'id: 1-a-1-1-1-0-7\n\n'
    """
    return b"id: %b\n\n" % position.encode()


def problem_message(problem: dict[str, Any]) -> bytes:
    r"""Return the last message of a stream that ends with an error.

    >>> problem_message({"title": "Gone"})
    b'event: penstock-problem\ndata: {"title":"Gone"}\n\n'
    """
    return b"event: %b\ndata: %b\n\n" % (PROBLEM_EVENT.encode(), msgspec.json.encode(problem))
