"""Lines and pages of a feed, as ZeroEventHub and FeedAPI servers send them.

Bytes arrive in chunks of any size. Complete lines are decoded together; an event's `data` is not decoded. Lines of
unknown kinds are skipped, as FeedAPI requires of clients.

Invariants:
    A page contains exactly the events before its cursors. Events after the last cursor of their partition are omitted:
        they are sent again, because there is no cursor after them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec

from penstock.core.events.decoding import EventDecoder
from penstock.core.log.details import EventDetails
from penstock.errors import ConnectionLost, EventUnusable, MalformedAnswer
from penstock.wire.http import ReaderItem

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Data = TypeVar("Data", default=Any)
else:
    from typing import TypeVar

    Data = TypeVar("Data")


_MISSING: Final = msgspec.Raw(b"")
_BOM: Final = b"\xef\xbb\xbf"


class FeedLine(msgspec.Struct, gc=False):
    """One line of a feed: an event has `data`, a checkpoint a `cursor`.

    A line without both is of an unknown kind, unless details were requested, and it has `details`.
    """

    # Any: a line of an unknown kind may contain any values, which must not stop the feed.
    partition: Any = None
    headers: Any = None
    data: msgspec.Raw = _MISSING
    cursor: Any = None
    details: msgspec.Raw = _MISSING


AnyLine = TypeVar("AnyLine")
OF_FEED: Final = msgspec.json.Decoder(FeedLine)


class LineReader(Generic[AnyLine]):
    """Splits the chunks of one response into lines, and decodes them.

    It holds at most one incomplete line in memory.
    """

    def __init__(self, url: str, decoder: msgspec.json.Decoder[AnyLine]) -> None:
        self._url = url
        self._decoder = decoder
        self._begun: list[bytes] = []
        self._line_count = 0
        """Number of decoded lines, for error messages."""

    def feed(self, chunk: bytes) -> list[AnyLine]:
        """Return the lines that *chunk* completes.

        Raises:
            MalformedAnswer: A line is not a JSON object.
        """
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._begun.append(chunk)
            return []
        block = b"".join([*self._begun, chunk[:end]])
        self._begun = [chunk[end:]] if end < len(chunk) else []
        return self._decode(block)

    def finish(self) -> list[AnyLine]:
        """Return the last line if no line break followed it.

        Raises:
            ConnectionLost: The response ended in the middle of a line.
        """
        block, self._begun = b"".join(self._begun), []
        if not block.strip():
            return []
        try:
            return [self._decoder.decode(block)]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConnectionLost(url=self._url, reason="it broke off in the middle of a line") from error

    def _decode(self, block: bytes) -> list[AnyLine]:
        if not self._line_count and block.startswith(_BOM):
            block = block[len(_BOM) :]
        try:
            lines: list[AnyLine] = self._decoder.decode_lines(block)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._refuse(block)
            raise
        self._line_count += block.count(b"\n")
        return lines

    def _refuse(self, block: bytes) -> None:
        """Raise MalformedAnswer for the line that cannot be decoded."""
        for number, line in enumerate(block.split(b"\n"), self._line_count + 1):
            try:
                if line.strip():
                    self._decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise MalformedAnswer(
                    url=self._url, reason=f"line {number} is not a JSON object: {line[:80]!r} ({error})"
                ) from error


class _Beside(msgspec.Struct, gc=False):
    metadata: Any = None


_decode_beside: Final = msgspec.json.Decoder(_Beside).decode


class _JsonDecoder:
    """Decodes events of a feed that is read without a type."""

    decode = staticmethod(msgspec.json.Decoder().decode)
    failures: tuple[type[Exception], ...] = ()


_JSON: Final = _JsonDecoder()
_decode_details: Final = msgspec.json.Decoder(EventDetails).decode


class PageDetails:
    """Details of consecutive events of a page, decoded on first access."""

    def __init__(self, url: str, raw: msgspec.Raw) -> None:
        """*raw* is the JSON of the details, which the server at *url* has sent."""
        self._url = url
        self._raw = raw

    @cached_property
    def decoded(self) -> EventDetails:
        """The details.

        Raises:
            MalformedAnswer: The server has sent something else.
        """
        try:
            return _decode_details(self._raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MalformedAnswer(url=self._url, reason=f"the details of events cannot be read: {error}") from error


class FeedEvent(msgspec.Struct, Generic[Data], gc=False, eq=False):
    """An event of a feed or of a subscription.

    Only a Penstock hub sends the offset, key, kind and time of its events; those of other servers have None.

    The garbage collector does not track events, of which a page has thousands: do not let an event's data refer to the
    event.
    """

    partition: int
    """The partition that it was read from, as the reader divides the feed."""
    _raw: msgspec.Raw
    _headers: Mapping[str, str] | None = None
    _details: PageDetails | None = None
    """The details of the events around it, if the server has sent any."""
    _index: int = 0
    """Its place in these details."""
    _decoder: EventDecoder | _JsonDecoder = _JSON
    """Decodes the event. It has no form in JSON, so that nobody publishes a FeedEvent for the event by mistake."""
    _after: str | None = None
    """The last cursor before the event, if its page had one; only known of a feed with a type, like `_place`."""
    _place: int = 0
    """Its number after that cursor, from 1."""
    _data: Any = msgspec.UNSET

    @property
    def headers(self) -> Mapping[str, str]:
        """The requested headers."""
        return self._headers or {}

    @property
    def offset(self) -> int | None:
        """Its offset in the feed's own partition, also if the reader divides the feed into fewer or more partitions."""
        return None if self._details is None else self._details.decoded.offset_of(self._index)

    @property
    def key(self) -> str | None:
        """Its key; None if it has none."""
        return None if self._details is None else self._details.decoded.key_of(self._index)

    @property
    def kind(self) -> str | None:
        """Its kind: the name of the event type, unless its producer has given it another one."""
        return None if self._details is None else self._details.decoded.kind_of(self._index)

    @property
    def received_at(self) -> datetime | None:
        """When the hub received it, in UTC; it never goes back within a partition."""
        return None if self._details is None else self._details.decoded.received_at_of(self._index)

    @property
    def raw(self) -> bytes:
        """The event's JSON, byte for byte as the server sent it."""
        return bytes(self._raw)

    @property
    def is_typed(self) -> bool:
        """True if the feed is read with a type."""
        return isinstance(self._decoder, EventDecoder)

    @property
    def data(self) -> Data:
        """The event, decoded on first access.

        It is an instance of the feed's type; without a type a dict, or a str from FeedAPI servers with text.

        Raises:
            EventUnusable: The event does not match the feed's type. To skip it, use `raw` and the page's cursors.
        """
        data: Data = self._data
        if data is msgspec.UNSET:
            try:
                data = self._data = self._decoder.decode(self._raw)
            except self._decoder.failures as error:
                raise self._explain(error) from error
        return data

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The event's metadata (eid, occurred_at …), even if the feed's type omits it; empty if the event has none."""
        try:
            metadata = _decode_beside(self._raw).metadata
        except (msgspec.DecodeError, UnicodeDecodeError):  # Such as a text of a FeedAPI server.
            return {}
        return metadata if isinstance(metadata, dict) else {}

    def _explain(self, error: Exception) -> EventUnusable:
        """Return the error for an event that its decoder refused with *error*."""
        decoder = self._decoder
        assert isinstance(decoder, EventDecoder)
        member, reason = decoder.explain(error, self.raw)
        cursor, place = self._after, self._place
        eid = self.metadata.get("eid")
        return EventUnusable.of(
            "event-unfit",
            feed=decoder.feed,
            partition=self.partition,
            cursor=cursor,
            place=place,
            eid=eid,
            type=decoder.name,
            member=member,
            reason=reason,
            event=f"event {place} {'of its page' if cursor is None else f'after cursor {cursor!r}'}"
            f" in partition {self.partition} of {decoder.feed}{'' if eid is None else f' (eid {eid})'}",
        )

    def __repr__(self) -> str:
        offset = "" if self._details is None else f"offset={self.offset}, "
        return f"FeedEvent(partition={self.partition}, {offset}raw={self.raw[:60]!r})"


@dataclass(frozen=True, slots=True)
class Page(ReaderItem, Generic[Data]):
    """One response to a read."""

    events: Sequence[FeedEvent[Data]] = ()
    """The events in the server's order; events of one partition are in the feed's order."""
    cursors: Mapping[int, str] = field(default_factory=dict)
    """Cursor by partition: store them together with the events' effects, and pass them to read the next page.

    They cover all partitions that were read, including those without events in this page.
    """
    since: Mapping[int, str] = field(default_factory=dict)
    """The cursor that the page was read from, by partition."""


class PageReader:
    """Collects the page of one response.

    Args:
        url: The feed's address, for error messages.
        cursors: The requested cursors.
        asked: The requested partitions; by default those of *cursors*.
        partition: The partition of lines that name none (FeedAPI v2).
        decoder: Decodes events into a type on access; None decodes JSON into dicts and lists.
        has_details: Details were requested: a line with them precedes the events that they belong to.
    """

    def __init__(
        self,
        url: str,
        cursors: Mapping[int, str],
        *,
        asked: Collection[int] | None = None,
        partition: int | None = None,
        decoder: EventDecoder | None = None,
        has_details: bool = False,
    ) -> None:
        self._url = url
        self._asked = frozenset(cursors if asked is None else asked)
        self._partition = partition
        self._decoder = decoder
        self._has_details = has_details
        self._details: PageDetails | None = None
        """The details of the next events."""
        self._index = 0
        """The place of the next event in these details."""
        self._lines = LineReader(url, OF_FEED)
        self._events: list[FeedEvent] = []
        self._open: dict[int, int] = {}
        """Number of events after the last cursor, by partition."""
        self.since = dict(cursors)
        self.cursors = dict(cursors)
        self.byte_count = 0

    @property
    def event_count(self) -> int:
        """Number of events so far."""
        return len(self._events)

    @property
    def is_closed(self) -> bool:
        """True if every event so far precedes a cursor, so that the page could end here."""
        return not self._open

    def feed(self, chunk: bytes) -> None:
        """Add the next bytes of the response.

        Raises:
            MalformedAnswer: The bytes are not lines of a feed.
        """
        self.byte_count += len(chunk)
        self._take(self._lines.feed(chunk))

    def finish(self) -> Page:
        """Return the page at the end of the response.

        Raises:
            MalformedAnswer: There are events, but no cursor after any of them.
            ConnectionLost: The response ended in the middle of a line.
        """
        self._take(self._lines.finish())
        return self.cut()

    def cut(self) -> Page:
        """Return the page so far, without waiting for the end of the response.

        Raises:
            MalformedAnswer: There are events, but no cursor after any of them.
        """
        events = self._list_covered_events() if self._open else self._events
        if self._events and not events:
            raise MalformedAnswer(url=self._url, reason=f"{len(self._events)} events, but no cursor after any of them")
        return Page(events, self.cursors, self.since)

    def recover(self, error: ConnectionLost) -> Page:
        """Return the page up to its last cursors, after the response broke off with *error*.

        Raises:
            ConnectionLost: No new cursor has arrived, or a requested partition has none.
        """
        if self.cursors == self.since or not self._asked <= self.cursors.keys():
            raise error
        return self.cut()

    def _take(self, lines: list[FeedLine]) -> None:
        decoder, opened, keep = self._decoder, self._open, self._events.append
        details, index = self._details, self._index
        for line in lines:
            if line.data is not _MISSING:
                partition, headers = self._partition_of(line), line.headers
                if headers is not None and not isinstance(headers, dict):
                    raise MalformedAnswer(url=self._url, reason=f"an event's headers are an object, not {headers!r}")
                count = opened[partition] = opened.get(partition, 0) + 1
                if decoder is None:
                    keep(FeedEvent(partition, line.data, headers, details, index))
                else:
                    after = self.cursors.get(partition)
                    keep(FeedEvent(partition, line.data, headers, details, index, decoder, after, count))
                index += 1
            elif self._has_details and line.details is not _MISSING:
                details, index = PageDetails(self._url, line.details), 0
            if line.cursor is not None:
                partition = self._partition_of(line)
                if not isinstance(line.cursor, str):
                    raise MalformedAnswer(url=self._url, reason=f"a cursor is text, not {line.cursor!r}")
                self.cursors[partition] = line.cursor
                self._open.pop(partition, None)
                details = None
        self._details, self._index = details, index

    def _partition_of(self, line: FeedLine) -> int:
        if self._partition is not None:
            return self._partition
        if type(line.partition) is not int or line.partition not in self._asked:
            raise MalformedAnswer(
                url=self._url, reason=f"a line is of partition {line.partition!r}, asked were {sorted(self._asked)}"
            )
        return line.partition

    def _list_covered_events(self) -> list[FeedEvent]:
        left = dict(self._open)
        kept: list[FeedEvent] = []
        for event in reversed(self._events):
            if left.get(event.partition, 0):
                left[event.partition] -= 1
            else:
                kept.append(event)
        kept.reverse()
        return kept
