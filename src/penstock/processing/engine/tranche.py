"""Tranches: the batches of items that are read from each, and the position that is safe to resume from.

An item is an event, as far as the engine knows it: a stream, and an index in it. The rest concerns only the handler.
Each tranche has its own queue of unfinished batches, so a blocked tranche does not block the others.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.errors import BadParameter

Position: TypeAlias = int | str
"""Place in a tranche from which reading continues. It is opaque to the engine."""


class SourceItem(Protocol):
    """An event of a stream."""

    @property
    def stream(self) -> str:
        """The stream's name."""
        ...

    @property
    def index(self) -> int:
        """Its index in the stream, from 0 on; larger than that of the stream's event before it in the tranche."""
        ...

    @property
    def next(self) -> int:
        """The least index that the stream's next event can have."""
        ...


class Batch(NamedTuple):
    """Events of one read of a tranche, or a part of them, with the position after them."""

    tranche: str
    end: Position
    """The position after its events."""
    items: Sequence[SourceItem]
    is_tail: bool = False
    """True if the tranche had no further events."""
    size: int | None = None
    """Number of events if its items are spans; None: the number of items."""
    bytes: int | None = None
    """Number of bytes read for it; None: the source does not report it."""
    is_part: bool = False
    """True if the next batch of the tranche comes from the same read."""


def check_items(parameter: str, items: Iterable[Any]) -> None:
    """Raise BadParameter unless each of *items* is an event whose stream is a text and whose index is a number."""
    for item in items:
        stream, index = getattr(item, "stream", None), getattr(item, "index", None)
        if type(stream) is str and type(index) is int and hasattr(item, "next"):
            continue
        text = f"{type(item).__name__} in place of events"
        if hasattr(item, "stream"):
            text = f"{type(item).__name__} with stream {stream!r:.80} and index {index!r:.80}"
        allowed = "lists of events, such as [StreamEvent(…), …], whose stream is a text and whose index a whole number"
        raise BadParameter(parameter=parameter, value=text, allowed=allowed)


def split_batch(batch: Batch, size: int, end: Callable[[SourceItem], Position]) -> list[Batch]:
    """Split *batch* into parts of up to *size* items, so that the position can advance part by part.

    Args:
        batch: The batch to split.
        size: Maximum number of items in a part.
        end: Returns the position after an item.
    """
    items = batch.items
    last = max(0, len(items) - 1) // size * size
    parts = [
        batch._replace(
            end=end(items[at + size - 1]), items=items[at : at + size], is_tail=False, bytes=None, is_part=True
        )
        for at in range(0, last, size)
    ]
    return [*parts, batch._replace(items=items[last:])]


def count_events(item: SourceItem) -> int:
    """Return the number of events in an item: one, unless it is a span with an attribute `events`."""
    count: int = getattr(item, "events", 1)
    return count


def bad_index(item: SourceItem, tranche: str) -> BadParameter:
    """Return the error for an item of a tranche whose index is below 0, or `INDEX_END` or more.

    Indices begin at 0, and databases cannot store a larger one.
    """
    allowed = "indices from 0 on, below 2**63 - 1: its source has to number the events of each stream so"
    return BadParameter(parameter="index", value=f"{item.index} of {item.stream} in {tranche}", allowed=allowed)


class UnfinishedBatch:
    """A batch with events that are not done."""

    __slots__ = ("end", "events", "is_part", "missing", "number", "start")

    def __init__(self, number: int, start: Position, end: Position, events: int, *, is_part: bool = False) -> None:
        self.number = number
        """Sequence number over all tranches, in the order of reading."""
        self.start = start
        self.end = end
        self.events = events
        self.is_part = is_part
        """True if the next batch comes from the same read."""
        self.missing = 0
        """Number of requirements that are not met: streams that have unhandled events in it."""


class StreamsAhead:
    """The streams of one tranche that are ahead of its position.

    A position waits for the slowest stream of a batch. To avoid repeating the others' work, the checkpoint stores the
    index of each faster stream beside the position, until the position has passed it.

    Args:
        kept: The stored index of each stream: the next one to handle.
    """

    def __init__(self, kept: Mapping[str, int]) -> None:
        self.unseen: dict[str, int] = dict(kept)
        """Stored streams whose last handled event has not been read since: until then their events are repeats."""
        self._kept = dict(kept)
        self._reached = dict(kept)
        self._changed: set[str] = set()
        self._last: dict[str, UnfinishedBatch] = {}
        """The batch that a stream has reached: the stream is ahead until that batch is done."""
        self._streams: dict[UnfinishedBatch, set[str]] = {}

    def is_repeat(self, item: SourceItem, running: UnfinishedBatch) -> bool:
        """Return whether an event of an `unseen` stream is already handled. The last such event ends that state."""
        stream = item.stream
        reached = self.unseen[stream]
        if item.next >= reached:
            del self.unseen[stream]
            self._hold(stream, running)
        return item.next <= reached

    def reach(self, stream: str, index: int, running: UnfinishedBatch) -> None:
        """Record that a stream is handled up to *index*, which lies in a batch that is not done."""
        self._reached[stream] = index
        self._changed.add(stream)
        self._hold(stream, running)

    def pass_over(self, stream: str, index: int) -> None:
        """Skip a stream's events below *index*, in whichever batch they come."""
        if index > self._reached.get(stream, 0):
            self._reached[stream] = self.unseen[stream] = index
            self._last.pop(stream, None)
            self._changed.add(stream)

    def end(self, running: UnfinishedBatch) -> None:
        """Record that the position has passed a batch."""
        for stream in self._list_ended(running):
            del self._last[stream], self._reached[stream]
            self._changed.add(stream)
        self._streams.pop(running, None)

    def find_changes(self) -> Mapping[str, int | None]:
        """Return the indices to store that changed since `confirm` was called; None: the stream is no longer ahead."""
        self._changed = {each for each in self._changed if self._reached.get(each) != self._kept.get(each)}
        return {each: self._reached.get(each) for each in self._changed}

    def predict_changes(
        self, reached: Mapping[str, int], ended: Collection[UnfinishedBatch]
    ) -> Mapping[str, int | None]:
        """Return the changes to store after batches have *ended*, and streams have *reached* an index in others."""
        over = {stream: None for running in ended for stream in self._list_ended(running)}
        return {
            each: at for each, at in {**self.find_changes(), **over, **reached}.items() if at != self._kept.get(each)
        }

    def confirm(self, stream: str, index: int | None) -> None:
        """Record the stored index of a stream; None: none is stored."""
        if index is None:
            self._kept.pop(stream, None)
        else:
            self._kept[stream] = index

    def _list_ended(self, running: UnfinishedBatch) -> Iterator[str]:
        return (each for each in [*self._streams.get(running, ())] if self._last.get(each) is running)

    def _hold(self, stream: str, running: UnfinishedBatch) -> None:
        self._last[stream] = running
        self._streams.setdefault(running, set()).add(stream)


class Tranche:
    """The read and handled positions of one tranche.

    Args:
        name: The tranche's name.
        position: The position to read from.
        batches_max: Maximum number of unfinished batches.
        events_max: Maximum number of their events; one batch may always be read, whatever its size.
        ahead: The streams that are ahead of *position*; None: the checkpoint does not store them.
        is_exact: True if all streams that are ahead are stored; else only those that `pass_over` events.
    """

    def __init__(
        self,
        name: str,
        position: Position,
        *,
        batches_max: int,
        events_max: int,
        ahead: Mapping[str, int] | None = None,
        is_exact: bool = True,
    ) -> None:
        self.name = name
        self.ahead = None if ahead is None else StreamsAhead(ahead)
        self.is_exact = ahead is not None and is_exact
        """True if the checkpoint stores every stream that is ahead."""
        self.completed = position
        """All events before this position are handled."""
        self.read = position
        """All events before this position were ingested."""
        self.is_closed = False
        """True if no further calls are made for it."""
        self.is_tail = False
        """True if the last read reached the tranche's end."""
        self.events = 0
        """Number of events of the unfinished batches."""
        self.batches = 0
        """Number of unfinished batches; the parts of one read count once."""
        self.oldest: int | None = None
        """The number of the batch that holds the position back; None: nothing does."""
        self._running: deque[UnfinishedBatch] = deque()
        self._batches_max = batches_max
        self._events_max = events_max

    @property
    def unseen(self) -> Mapping[str, int]:
        """Indices by stream below which events were handled before, or dropped: see `StreamsAhead`."""
        return {} if self.ahead is None else self.ahead.unseen

    @property
    def parts(self) -> int:
        """Number of unfinished parts of batches."""
        return len(self._running)

    @property
    def room(self) -> int:
        """Number of events that may be read now; 0: none until a batch has ended."""
        if self.batches >= self._batches_max:
            return 0
        return max(0, self._events_max - self.events)

    def predict_ended(self, met: Mapping[UnfinishedBatch, int]) -> list[UnfinishedBatch]:
        """Return the batches that the position will pass when *met* requirements of each are met."""
        return [*takewhile(lambda running: running.missing <= met.get(running, 0), self._running)]

    def begin(self, number: int, batch: Batch) -> UnfinishedBatch:
        """Add a batch that was read."""
        events = len(batch.items) if batch.size is None else batch.size
        running = UnfinishedBatch(number, self.read, batch.end, events, is_part=batch.is_part)
        self._running.append(running)
        self.oldest = self._running[0].number
        self.batches += not batch.is_part
        self.read, self.is_tail = running.end, batch.is_tail
        self.events += running.events
        return running

    def reach(self, stream: str, index: int, running: UnfinishedBatch) -> None:
        """Record that a stream is handled up to *index*, in a batch that is not done."""
        if self.ahead is not None and self.is_exact:
            self.ahead.reach(stream, index, running)

    def pass_over(self, stream: str, index: int) -> None:
        """Skip a stream's events below *index*, in whichever batch they come."""
        if self.ahead is not None:
            self.ahead.pass_over(stream, index)

    def advance(self) -> bool:
        """Move the position past all batches that are done; return whether it has moved."""
        running, before = self._running, len(self._running)
        while running and running[0].missing == 0:
            ended = running.popleft()
            self.completed = ended.end
            self.events -= ended.events
            self.batches -= not ended.is_part
            if self.ahead is not None:
                self.ahead.end(ended)
        self.oldest = running[0].number if running else None
        return len(running) < before
