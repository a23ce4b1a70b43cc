"""The lines of a feed: events and cursors, as ZeroEventHub and FeedAPI servers send them.

Bytes come in as the network cuts them. Whole lines are decoded together, each once; an event's `data` is not looked
into. Lines of kinds that are not known are passed over, as FeedAPI asks of its clients.

A page of a feed: events, and the cursors from which to read on once they are dealt with.

Invariants:
    A page holds exactly the events that lie before its cursors. An event after the last cursor of its partition is left
    out: it comes again, because nothing tells how to read on after it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec

from penstock.core.events.decoding import EventDecoder
from penstock.errors import ConnectionLost, EventUnfit
from penstock.wire.http import Handed, malformed

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Data = TypeVar("Data", default=Any)
else:
    from typing import TypeVar

    Data = TypeVar("Data")


_MISSING: Final = msgspec.Raw(b"")
_BOM: Final = b"\xef\xbb\xbf"


class Line(msgspec.Struct, gc=False):
    """One line. Only `data` and `cursor` say what it is; a line that has neither is of a kind that is not known."""

    # Any: whatever these hold on a line of an unknown kind must not stop the feed.
    partition: Any = None
    headers: Any = None
    data: msgspec.Raw = _MISSING
    cursor: Any = None

    @property
    def is_event(self) -> bool:
        """Whether the line carries an event."""
        return len(memoryview(self.data)) > 0


AnyLine = TypeVar("AnyLine")
OF_FEED: Final = msgspec.json.Decoder(Line)


class LineReader(Generic[AnyLine]):
    """Turns the chunks of one answer into lines.

    Memory: it holds no more than the line that has begun but not ended.
    """

    def __init__(self, url: str, decoder: msgspec.json.Decoder[AnyLine]) -> None:
        self._url = url
        self._decoder = decoder
        self._begun: list[bytes] = []
        self._line_count = 0
        """Lines that have been decoded, so that an error can name its line."""

    def feed(self, chunk: bytes) -> list[AnyLine]:
        """Return the lines that *chunk* completes.

        Raises:
            MalformedAnswer: a line is not a JSON object.
        """
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._begun.append(chunk)
            return []
        block = b"".join([*self._begun, chunk[:end]])
        self._begun = [chunk[end:]] if end < len(chunk) else []
        return self._decode(block)

    def finish(self) -> list[AnyLine]:
        """Return the last line, where no line break ended it.

        Raises:
            ConnectionLost: the answer broke off in the middle of a line.
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
        """Find the line that cannot be decoded, and say so."""
        for number, line in enumerate(block.split(b"\n"), self._line_count + 1):
            try:
                if line.strip():
                    self._decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise malformed(self._url, f"line {number} is not a JSON object: {line[:80]!r} ({error})") from error


class _Beside(msgspec.Struct, gc=False):
    metadata: Any = None


_decode: Final = msgspec.json.Decoder().decode
_decode_beside: Final = msgspec.json.Decoder(_Beside).decode


class FeedEvent(Generic[Data]):
    """An event as it was read from a feed."""

    __slots__ = ("_data", "_raw", "headers", "partition")
    _data: Data

    def __init__(self, partition: int, raw: msgspec.Raw, headers: Mapping[str, str] | None = None) -> None:
        self.partition = partition
        """The partition that it was read from, as the reader sees the feed."""
        self.headers: Mapping[str, str] = headers or {}
        """The headers that were asked for."""
        self._raw = raw

    @property
    def raw(self) -> bytes:
        """The event's JSON, byte for byte as the server sent it."""
        return bytes(self._raw)

    @property
    def data(self) -> Data:
        """The event, decoded when it is first asked for: an object, or text where a FeedAPI server carries text.

        Where the feed is read with a type, it is an instance of that.

        Raises:
            EventUnfit: it is not of the feed's type. The page has all that it takes to pass it over: `raw`, and cursors
                that lead past it.
        """
        try:
            return self._data
        except AttributeError:
            self._data = _decode(self._raw)
            return self._data

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The event's metadata (eid, occurred_at …), whether the feed's type has it or not; empty where it has none."""
        try:
            metadata = _decode_beside(self._raw).metadata
        except (msgspec.DecodeError, UnicodeDecodeError):  # Such as a text, of a FeedAPI server.
            return {}
        return metadata if isinstance(metadata, dict) else {}

    def __repr__(self) -> str:
        return f"FeedEvent(partition={self.partition}, raw={self.raw[:60]!r})"


class TypedEvent(FeedEvent[Data]):
    """An event of a feed that is read with a type.

    Args:
        partition, raw, headers: As for a FeedEvent.
        decoder: Decodes it.
        at: The last cursor before it (None where its page had none), and its number after that cursor, from 1.
    """

    __slots__ = ("_at", "_decoder")

    def __init__(
        self,
        partition: int,
        raw: msgspec.Raw,
        headers: Mapping[str, str] | None,
        decoder: EventDecoder,
        at: tuple[str | None, int],
    ) -> None:
        self.partition = partition
        self.headers = headers or {}
        self._raw = raw
        self._decoder = decoder
        self._at = at

    @property
    def data(self) -> Data:
        """The event as an instance of the feed's type, decoded when it is first asked for."""
        try:
            return self._data
        except AttributeError:
            self._data = self._decoded()
            return self._data

    def _decoded(self) -> Any:
        decoder = self._decoder
        try:
            return decoder.decode(self._raw)
        except decoder.failures as error:
            member, reason = decoder.explain(error, self.raw)
            cursor, place = self._at
            eid = self.metadata.get("eid")
            raise EventUnfit(
                feed=decoder.feed,
                partition=self.partition,
                cursor=cursor,
                place=place,
                eid=eid,
                type=decoder.name,
                member=member,
                reason=reason,
                told=f"event {place} {'of its page' if cursor is None else f'after cursor {cursor!r}'}"
                f" in partition {self.partition} of {decoder.feed}{'' if eid is None else f' (eid {eid})'}",
            ) from error


@dataclass(frozen=True, slots=True)
class Page(Handed, Generic[Data]):
    """One answer to a read."""

    events: Sequence[FeedEvent[Data]] = ()
    """In the order in which the server sent them; events of one partition in the feed's order."""
    cursors: Mapping[int, str] = field(default_factory=dict)
    """Partition to cursor: what to store beside the events' effect, and to hand back for the next page.

    They cover all partitions that are read, those too from which this page brought nothing.
    """
    since: Mapping[int, str] = field(default_factory=dict)
    """Partition to the cursor from which the page was read."""


class PageReader:
    """Collects the page that one answer brings.

    Args:
        url: Where the answer comes from, for errors.
        cursors: What was asked for.
        asked: The partitions that the answer may speak of; without it those of *cursors*.
        partition: The partition that lines without one are of (FeedAPI v2); None where each line names its own.
        decoder: Decodes the events into a type, when they are asked for; without it they are what JSON makes of them.
    """

    def __init__(
        self,
        url: str,
        cursors: Mapping[int, str],
        *,
        asked: Collection[int] | None = None,
        partition: int | None = None,
        decoder: EventDecoder | None = None,
    ) -> None:
        self._url = url
        self._asked = frozenset(cursors if asked is None else asked)
        self._partition = partition
        self._decoder = decoder
        self._lines = LineReader(url, OF_FEED)
        self._events: list[FeedEvent] = []
        self._open: dict[int, int] = {}
        """Of each partition with events after its last cursor: how many."""
        self.since = dict(cursors)
        self.cursors = dict(cursors)
        self.byte_count = 0

    @property
    def event_count(self) -> int:
        """How many events have come."""
        return len(self._events)

    @property
    def is_closed(self) -> bool:
        """Whether every event so far has a cursor after it, so that the page could end here."""
        return not self._open

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the answer.

        Raises:
            MalformedAnswer: they are not a feed's.
        """
        self.byte_count += len(chunk)
        self._take(self._lines.feed(chunk))

    def finish(self) -> Page:
        """Return the page, once the answer has ended.

        Raises:
            MalformedAnswer: there are events, but no cursor that leads past any of them.
            ConnectionLost: the answer broke off in the middle of a line.
        """
        self._take(self._lines.finish())
        return self.cut()

    def cut(self) -> Page:
        """Return the page as it is so far, although the answer goes on.

        Raises:
            MalformedAnswer: there are events, but no cursor that leads past any of them.
        """
        events = self._covered() if self._open else self._events
        if self._events and not events:
            raise malformed(self._url, f"{len(self._events)} events, but no cursor after any of them")
        return Page(events, self.cursors, self.since)

    def up_to(self, error: ConnectionLost) -> Page:
        """Return the page up to its last cursors, where the answer broke off with *error* behind them.

        Raises:
            ConnectionLost: *error*, where no cursor has come that leads on, or not one of each partition that is asked
                for and had none.
        """
        if self.cursors == self.since or not self._asked <= self.cursors.keys():
            raise error
        return self.cut()

    def _take(self, lines: list[Line]) -> None:
        decoder, opened, keep = self._decoder, self._open, self._events.append
        for line in lines:
            if line.is_event:
                partition = self._partition_of(line)
                opened[partition] = opened.get(partition, 0) + 1
                if decoder is None:
                    keep(FeedEvent(partition, line.data, self._headers_of(line)))
                else:
                    at = (self.cursors.get(partition), opened[partition])
                    keep(TypedEvent(partition, line.data, self._headers_of(line), decoder, at))
            if line.cursor is not None:
                partition = self._partition_of(line)
                if not isinstance(line.cursor, str):
                    raise malformed(self._url, f"a cursor is text, not {line.cursor!r}")
                self.cursors[partition] = line.cursor
                self._open.pop(partition, None)

    def _partition_of(self, line: Line) -> int:
        if self._partition is not None:
            return self._partition
        if type(line.partition) is not int or line.partition not in self._asked:
            raise malformed(self._url, f"a line is of partition {line.partition!r}, asked were {sorted(self._asked)}")
        return line.partition

    def _headers_of(self, line: Line) -> Mapping[str, str] | None:
        if line.headers is None or isinstance(line.headers, dict):
            return line.headers
        raise malformed(self._url, f"an event's headers are an object, not {line.headers!r}")

    def _covered(self) -> list[FeedEvent]:
        left = dict(self._open)
        kept: list[FeedEvent] = []
        for event in reversed(self._events):
            if left.get(event.partition, 0):
                left[event.partition] -= 1
            else:
                kept.append(event)
        kept.reverse()
        return kept
