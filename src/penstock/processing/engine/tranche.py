"""The batches of a tranche that are under way, and the position that is safe to resume from.

Each tranche has a queue of its own: what holds one back holds no other (digest of Propulsion, 1.8 and 8.2).
"""

from collections import deque
from collections.abc import Mapping

from penstock.processing.engine.item import Batch, Position


class Running:
    """A batch that is under way."""

    __slots__ = ("end", "events", "missing", "number", "start")

    def __init__(self, number: int, start: Position, end: Position, events: int) -> None:
        self.number = number
        """Over all tranches, as they came."""
        self.start = start
        self.end = end
        self.events = events
        self.missing = 0
        """How many streams have something in it that is not handled yet."""


class Tranche:
    """How far one tranche is read, and how far it is handled.

    Args:
        name: Of the tranche.
        position: Where it is read from.
        batches_max: How many batches may be under way.
        events_max: How many events these may have; one batch may always be read, whatever it has.
    """

    def __init__(self, name: str, position: Position, *, batches_max: int, events_max: int) -> None:
        self.name = name
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
        self._running: deque[Running] = deque()
        self._batches_max = batches_max
        self._events_max = events_max

    @property
    def batches(self) -> int:
        """How many batches are under way."""
        return len(self._running)

    @property
    def room(self) -> int:
        """How many events may be read now; 0: none, until a batch has ended."""
        if len(self._running) >= self._batches_max:
            return 0
        return max(0, self._events_max - self.events)

    @property
    def oldest(self) -> int | None:
        """The number of the batch that holds the position back; None: nothing does."""
        return self._running[0].number if self._running else None

    def completed_if(self, met: Mapping[Running, int]) -> Position:
        """Return `completed` as it will be when so many of what each batch waits for are done."""
        completed = self.completed
        for running in self._running:
            if running.missing > met.get(running, 0):
                break
            completed = running.end
        return completed

    def begin(self, number: int, batch: Batch) -> Running:
        """Take a batch."""
        running = Running(number, self.read, batch.end, len(batch.items) if batch.size is None else batch.size)
        self._running.append(running)
        self.read, self.is_tail = running.end, batch.is_tail
        self.events += running.events
        return running

    def advance(self) -> bool:
        """Move the position over all batches that are done; tell whether it has moved."""
        running, before = self._running, len(self._running)
        while running and running[0].missing == 0:
            ended = running.popleft()
            self.completed = ended.end
            self.events -= ended.events
        return len(running) < before
