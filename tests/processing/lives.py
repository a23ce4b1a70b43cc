"""Several lives of a processor, held against a log of which all is known: what it is called with, what it keeps."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from penstock.processing.checkpoints.checkpoint import Advance, MemoryCheckpoints
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.tranche import Batch
from penstock.processing.outcomes import done_to, retry, skip_to
from penstock.processing.sources.memory import MemorySource
from penstock.processing.sources.source import ReadRequest
from penstock.processing.stream_event import StreamEvent
from penstock.processing.together import Span

TRANCHES = ("a", "b", "c")
OVERLAP_SECONDS = 0.0005
"""So long a call waits for another one to begin meanwhile."""


class Appended(NamedTuple):
    """A batch that is to be appended: the streams, by number, of its events."""

    tranche: str
    streams: Sequence[int]


class Asked(MemorySource):
    """A source that tells what it is asked for, before it answers."""

    def __init__(self, *tranches: str) -> None:
        super().__init__(*tranches)
        self.tell: Callable[[str, int], None] = lambda *_: None

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        for tranche, want in wants.items():
            self.tell(tranche, int(want.position))
        return super().read(wants, timeout)

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Return several batches as one page, as feeds do; there may be some among them that nobody has read yet."""
        read = super().reread
        found = [read(tranche, ReadRequest(int(want.position) + number, want.events_max)) for number in range(4)]
        pages = [batch for batch in found if batch.items] or found[:1]
        items = [item for batch in pages for item in batch.items]
        return Batch(tranche, pages[-1].end, items, is_tail=pages[-1].is_tail)


class Log:
    """A source, and its contents: each stream lies in one tranche.

    Args:
        tranches: Those that are there from the beginning; others are added with their first batch.
    """

    def __init__(self, *tranches: str) -> None:
        tranches = tranches or TRANCHES
        self.source = Asked(*tranches)
        self.counts: Counter[str] = Counter()
        self.batches: dict[str, list[list[tuple[str, int]]]] = {tranche: [] for tranche in tranches}
        self._turn = threading.Lock()

    def append(self, batch: Appended) -> None:
        """Append a batch."""
        with self._turn:
            places = []
            for number in batch.streams:
                stream = f"{batch.tranche}{number}"
                places.append((stream, self.counts[stream]))
                self.counts[stream] += 1
            self.batches.setdefault(batch.tranche, []).append(places)
        items = [StreamEvent(stream, index, "event", b"{}", tranche=batch.tranche) for stream, index in places]
        self.source.deliver(items, tranche=batch.tranche)

    def first(self, stream: str, position: int) -> int:
        """Return the index of the first event of a stream that is at a position or behind it."""
        with self._turn:
            batches = self.batches[stream[0]][position:]
            return next((index for batch in batches for name, index in batch if name == stream), self.counts[stream])

    def sizes(self, tranche: str, start: int, end: int) -> list[int]:
        """Return how many events the batches have that lie between two positions."""
        with self._turn:
            return [len(batch) for batch in self.batches[tranche][start:end]]

    def limit(self, tranche: str, position: int, rules: Rules) -> int:
        """Return up to which batch may be read while nothing is done from that at *position* on."""
        with self._turn:
            sizes = [len(batch) for batch in self.batches[tranche][position:][: rules.batches_ahead]]
        allowed = [count for count in range(len(sizes)) if sum(sizes[:count]) < rules.events_ahead]
        return position + len(allowed)


class Journal:
    """Calls that fail, defer, handle a part or all, or skip at random; each must be the next one of its stream.

    A life begins at a checkpoint. Each stream is called with exactly what comes next: at first with its first event
    behind the checkpoint, then with what is behind what its last call of this life has done, or skipped.
    """

    skips = True
    """Whether some skip what they have not seen."""

    def __init__(self, log: Log, seed: int, rules: Rules, *, concurrency: int | None) -> None:
        self.wrong: list[str] = []
        self.calls = 0
        """How many there were in this life."""
        self._log = log
        self._seed = seed
        self._rules = rules
        self._concurrency = concurrency
        self._changed = threading.Condition(threading.RLock())
        self._active: set[str] = set()
        self._tries: Counter[tuple[str, int]] = Counter()
        self._begun: Mapping[str, Any] = {}
        self._wanted: dict[str, int] = {}
        self._handled: dict[str, int] = {}
        log.source.tell = self._read_on

    def begin(self, positions: Mapping[str, Any]) -> None:
        """Begin a life at *positions*."""
        with self._changed:
            self._begun, self._wanted, self._handled, self.calls = dict(positions), {}, {}, 0

    def position(self, tranche: str) -> int:
        """Return to where all is done or skipped: since this life began, and before its checkpoint."""
        return self._position(tranche, self.wanted)

    def least(self, tranche: str) -> int:
        """Return the same as far as handlers have come: nobody may have read the batches behind that are skipped."""
        return self._position(tranche, lambda stream: self._handled.get(stream, 0))

    def _position(self, tranche: str, end: Callable[[str], int]) -> int:
        with self._changed:
            position = int(self._begun.get(tranche, 0))
            for batch in self._log.batches[tranche][position:]:
                if any(index >= end(stream) for stream, index in batch):
                    break
                position += 1
            return position

    def _read_on(self, tranche: str, position: int) -> None:
        """Note that a batch is read, and check the limit of reading ahead."""
        done, rules = self.position(tranche), self._rules
        sizes = self._log.sizes(tranche, done, position)
        is_beyond = len(sizes) >= rules.batches_ahead or sum(sizes) >= rules.events_ahead
        self._blame(is_beyond, f"{tranche} is done to {done}, and read to {position}: batches of {sizes} are too many")

    def wanted(self, stream: str) -> int:
        """Return which index of a stream comes next."""
        with self._changed:
            if stream not in self._wanted:
                self._wanted[stream] = self._log.first(stream, int(self._begun.get(stream[0], 0)))
            return self._wanted[stream]

    def has_done_all(self) -> bool:
        """Return whether all events are done."""
        return all(self.wanted(stream) >= count for stream, count in self._log.counts.items())

    def await_calls(self, count: int) -> None:
        """Wait until so many calls of this life have been made, or all is done."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.calls >= count or self.has_done_all(), 300.0)

    def called(self, stream: str, events: Sequence[Any]) -> Any:
        """Be called with a span: a handler."""
        self._enter(stream, events)
        with self._changed:
            self._changed.wait(OVERLAP_SECONDS)
        return self._left(stream, events)

    async def awaited(self, stream: str, events: Sequence[Any]) -> Any:
        """Be called with a span, in an event loop: a handler."""
        self._enter(stream, events)
        await asyncio.sleep(OVERLAP_SECONDS)
        return self._left(stream, events)

    def called_together(self, spans: Sequence[Span]) -> list[Any] | None:
        """Be called with spans of several streams: a handler for `Together`."""
        for stream, events in spans:
            self._enter(stream, events)
        is_failing = self._chance("all", len(spans)) < 0.2
        if is_failing:
            for stream, _ in spans:
                self._leave(stream)
            raise ValueError("as chance has it, all of it")
        return [self._result(stream, events) for stream, events in spans]

    def _result(self, stream: str, events: Sequence[Any]) -> Any:
        try:
            return self._left(stream, events)
        except ValueError as error:
            return error

    def _enter(self, stream: str, events: Sequence[Any]) -> None:
        with self._changed:
            self.calls += 1
            self._blame(stream in self._active, f"two calls at once for {stream}")
            self._active.add(stream)
            indices, wanted = [event.index for event in events], self.wanted(stream)
            expected = [*range(wanted, wanted + len(indices))]
            self._blame(not indices or indices != expected, f"{stream} is called with {indices}, and not {expected}")
            self._blame(len(indices) > self._rules.events_per_call, f"{stream} is called with {len(indices)} at once")
            most = self._concurrency
            self._blame(most is not None and len(self._active) > most, f"{self._active} are called at once")
            self._changed.notify_all()

    def _left(self, stream: str, events: Sequence[Any]) -> Any:
        """End a call as chance has it."""
        with self._changed:
            try:
                return self._outcome(stream, events)
            finally:
                self._leave(stream)

    def _outcome(self, stream: str, events: Sequence[Any]) -> Any:
        chance = self._chance(stream, events[0].index)
        if chance < 0.15:
            raise ValueError("as chance has it")
        if chance < 0.25:
            return retry(0.001)
        if chance < 0.3:
            return done_to(events[0].index)
        if self.skips and chance < 0.4:
            self._handled[stream] = events[-1].next
            self._wanted[stream] = events[-1].next + 1 + len(events) % 3
            return skip_to(self._wanted[stream])
        part = events if chance < 0.7 else events[: max(1, len(events) // 2)]
        self._wanted[stream] = self._handled[stream] = part[-1].next
        return done_to(part[-1].next, after_seconds=0.001 if chance > 0.9 else None)

    def _leave(self, stream: str) -> None:
        with self._changed:
            self._active.discard(stream)
            self._changed.notify_all()

    def _chance(self, stream: str, index: int) -> float:
        self._tries[stream, index] += 1
        return Random(f"{self._seed} {stream} {index} {self._tries[stream, index]}").random()

    def _blame(self, is_wrong: bool, what: str) -> None:
        if is_wrong:
            self.wrong.append(what)


class HonestCheckpoints(MemoryCheckpoints):
    """Positions that never go back, and never pass what is not done."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self.is_dead = False
        """Whether the processor is: what it commits from now on, nobody has."""
        self._journal = journal

    def commit(self, advance: Advance) -> None:
        """Keep *advance*, if it may be."""
        for tranche, (before, after) in advance.moves.items():
            if before is not None and int(after) < int(before):
                self._journal.wrong.append(f"{tranche} goes from {before} to {after}")
            done = self._journal.position(tranche)
            if int(after) > done:
                self._journal.wrong.append(f"{tranche} is at {after}, and done to {done}")
        if not self.is_dead:
            super().commit(advance)
