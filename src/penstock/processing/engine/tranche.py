"""The batches of a tranche that are under way, and the position that is safe to resume from.

Each tranche has a queue of its own, so one that is held back does not hold back the others.
"""

from collections import deque
from collections.abc import Mapping
from itertools import takewhile

from penstock.processing.engine.ahead import Ahead
from penstock.processing.engine.item import Batch, Position
from penstock.processing.engine.running import Running


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
