"""The batches of a tranche that are under way, and the position that is safe to resume from.

Each tranche has a queue of its own, so one that is held back does not hold back the others.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile

from penstock.processing.engine.item import Batch, Position, SourceItem


class Running:
    """What was read at once, as long as something of it is not done."""

    __slots__ = ("end", "events", "is_part", "missing", "number", "start")

    def __init__(self, number: int, start: Position, end: Position, events: int, *, is_part: bool = False) -> None:
        self.number = number
        """Over all tranches, as they came."""
        self.start = start
        self.end = end
        self.events = events
        self.is_part = is_part
        """Whether the next one was read together with it."""
        self.missing = 0
        """How many streams have something in it that is not handled yet."""


class Ahead:
    """The streams of one tranche that are ahead of its position.

    A position waits for the slowest stream of a batch. Where the others' work is not to be done twice, how far they are
    is kept beside the position, stream by stream, until the position has passed it.

    Args:
        kept: What is kept of them: the index wanted next, by stream.
    """

    def __init__(self, kept: Mapping[str, int]) -> None:
        self.unseen: dict[str, int] = dict(kept)
        """Those whose last handled event has not been read since they were kept: until then what comes of them is a
        repeat."""
        self._kept = dict(kept)
        self._reached = dict(kept)
        self._changed: set[str] = set()
        self._last: dict[str, Running] = {}
        """The batch that a stream has come to: it is ahead as long as that is not done."""
        self._streams: dict[Running, set[str]] = {}

    def is_repeat(self, item: SourceItem, running: Running) -> bool:
        """Tell whether an event of an `unseen` stream is handled already; where it is the last one, it is seen now."""
        stream = item.stream
        reached = self.unseen[stream]
        if item.next >= reached:
            del self.unseen[stream]
            self._hold(stream, running)
        return item.next <= reached

    def reach(self, stream: str, index: int, running: Running) -> None:
        """Take note that a stream is handled up to *index*, which lies in a batch that is not done."""
        self._reached[stream] = index
        self._changed.add(stream)
        self._hold(stream, running)

    def pass_over(self, stream: str, index: int) -> None:
        """Take note that nothing of a stream is to be handled below *index*, wherever that lies."""
        if index > self._reached.get(stream, 0):
            self._reached[stream] = self.unseen[stream] = index
            self._last.pop(stream, None)
            self._changed.add(stream)

    def end(self, running: Running) -> None:
        """Take note that the position has passed a batch."""
        for stream in self._ended(running):
            del self._last[stream], self._reached[stream]
            self._changed.add(stream)
        self._streams.pop(running, None)

    def changes(self) -> Mapping[str, int | None]:
        """Return what is to be kept since `kept` was called; None: it is ahead no more."""
        self._changed = {each for each in self._changed if self._reached.get(each) != self._kept.get(each)}
        return {each: self._reached.get(each) for each in self._changed}

    def changes_if(self, reached: Mapping[str, int], ended: Collection[Running]) -> Mapping[str, int | None]:
        """Return the same as it will be once batches have *ended*, and streams have *reached* an index in others."""
        over = {stream: None for running in ended for stream in self._ended(running)}
        return {each: at for each, at in {**self.changes(), **over, **reached}.items() if at != self._kept.get(each)}

    def kept(self, stream: str, index: int | None) -> None:
        """Take note of what is kept of a stream."""
        if index is None:
            self._kept.pop(stream, None)
        else:
            self._kept[stream] = index

    def _ended(self, running: Running) -> Iterator[str]:
        return (each for each in [*self._streams.get(running, ())] if self._last.get(each) is running)

    def _hold(self, stream: str, running: Running) -> None:
        self._last[stream] = running
        self._streams.setdefault(running, set()).add(stream)


class Tranche:
    """How far one tranche is read, and how far it is handled.

    Args:
        name: Of the tranche.
        position: Where it is read from.
        batches_max: How many batches may be under way.
        events_max: How many events these may have; one batch may always be read, whatever it has.
        ahead: The streams that are ahead of *position*; None: it is not kept which are.
        is_exact: Whether all are kept that are; else those alone that are to `pass_over` something.
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
        self.ahead = None if ahead is None else Ahead(ahead)
        self.is_exact = ahead is not None and is_exact
        """Whether it is kept of every stream how far it is ahead."""
        self.completed = position
        """All before it is handled."""
        self.read = position
        """All before it was handed to the engine."""
        self.is_closed = False
        """Whether nothing of it is handed out any more."""
        self.is_tail = False
        """Whether there was nothing more behind what was read last."""
        self.events = 0
        """How many the batches have that are under way."""
        self.batches = 0
        """How many batches are under way: what was read at once is one."""
        self.oldest: int | None = None
        """The number of the batch that holds the position back; None: nothing does."""
        self._running: deque[Running] = deque()
        self._batches_max = batches_max
        self._events_max = events_max

    @property
    def unseen(self) -> Mapping[str, int]:
        """Below which index what comes of streams was handled before, or dropped: see `Ahead`."""
        return {} if self.ahead is None else self.ahead.unseen

    @property
    def parts(self) -> int:
        """How many parts of batches are under way."""
        return len(self._running)

    @property
    def room(self) -> int:
        """How many events may be read now; 0: none, until a batch has ended."""
        if self.batches >= self._batches_max:
            return 0
        return max(0, self._events_max - self.events)

    def ended_if(self, met: Mapping[Running, int]) -> list[Running]:
        """Return the batches that the position will have passed when so many of what each waits for are done."""
        return [*takewhile(lambda running: running.missing <= met.get(running, 0), self._running)]

    def begin(self, number: int, batch: Batch) -> Running:
        """Take a batch."""
        events = len(batch.items) if batch.size is None else batch.size
        running = Running(number, self.read, batch.end, events, is_part=batch.is_part)
        self._running.append(running)
        self.oldest = self._running[0].number
        self.batches += not batch.is_part
        self.read, self.is_tail = running.end, batch.is_tail
        self.events += running.events
        return running

    def reach(self, stream: str, index: int, running: Running) -> None:
        """Take note that a stream is handled up to *index*, in a batch that is not done."""
        if self.ahead is not None and self.is_exact:
            self.ahead.reach(stream, index, running)

    def pass_over(self, stream: str, index: int) -> None:
        """Take note that nothing of a stream is to be handled below *index*, wherever that lies."""
        if self.ahead is not None:
            self.ahead.pass_over(stream, index)

    def advance(self) -> bool:
        """Move the position over all batches that are done; tell whether it has moved."""
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
