"""Cuts the events of a stream into batches: decides what to send now, and when to check again.

No I/O and no clock: the caller passes the events that it has read, and the time, in seconds of a monotonic clock.

Source: Nakadi's low-level API, https://nakadi.io/manual.html.

Invariants:
    Batches of a partition hold its events in order, each once. No event beyond a limit is sent.
    Events that wait to be sent take at most `bytes_max` bytes, except for those of the last `add`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

EVENT_OVERHEAD: Final = 48
"""Memory that an event takes beside its bytes, so that a stream of empty objects is bounded, too."""


class FeedStreamRules(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one event stream."""

    batch_limit: int
    """Number of events in a full batch, at least 1."""
    stream_limit: int
    """The stream ends after this number of events; 0: no limit."""
    flush_timeout: float
    """A partition that was silent for this many seconds sends the events that it has, or a keep-alive."""
    timeout: float
    """The stream ends after this many seconds."""
    keep_alive_limit: int
    """The stream ends once each partition has sent this number of keep-alives in a row; 0: no limit."""
    bytes_max: int
    """Upper bound of the bytes that wait to be sent."""


class FeedBatch(NamedTuple):
    """A batch of one partition."""

    partition: int
    position: int
    """The next offset that a reader of this batch wants."""
    events: Sequence[bytes]
    """Empty in a keep-alive."""


class FeedBatcher:
    """Cuts the events of one stream into batches. Not thread-safe."""

    def __init__(self, rules: FeedStreamRules, positions: Mapping[int, int], now: float) -> None:
        """Start the stream at *now*; *positions* has the next offset to read of each partition."""
        self._rules = rules
        self._partitions: dict[int, _PartitionBuffer] = {}
        self._ready: list[FeedBatch] = []
        self._left = rules.stream_limit or None
        self._size = 0
        self._ends_at = now + rules.timeout
        self._is_closed = False
        for partition, position in positions.items():
            self.begin(partition, position, now)

    @property
    def is_closed(self) -> bool:
        """True if the stream has ended: no batch follows those that `take` has returned."""
        return self._is_closed

    @property
    def left(self) -> int | None:
        """Number of events that the stream still takes; None: unlimited."""
        return self._left

    @property
    def size(self) -> int:
        """Bytes of the events that wait to be sent, with their overhead in memory."""
        return self._size

    @property
    def ends_at(self) -> float:
        """Time at which the stream times out."""
        return self._ends_at

    @property
    def due_at(self) -> float:
        """Time at which `take` next returns a batch if no event is added before."""
        first = min((each.sent_at for each in self._partitions.values()), default=self._ends_at)
        return min(first + self._rules.flush_timeout, self._ends_at)

    def begin(self, partition: int, position: int, now: float) -> None:
        """Add a partition to the stream at *now*; *position* is the next offset to read."""
        self._partitions[partition] = _PartitionBuffer(position, now)

    def add(self, partition: int, events: Sequence[bytes], offsets: Sequence[int], position: int, now: float) -> None:
        """Add the *events* at *offsets* that were read of a partition, and the next offset to read, *position*.

        Offsets that are missing between them were filtered out by the reader, and are not read again. Events beyond the
        stream's limit are ignored.
        """
        if self._left is not None and len(events) > self._left:
            events = events[: self._left]
            position = offsets[len(events) - 1] + 1 if events else self._partitions[partition].position
        own, at, limit = self._partitions[partition], 0, self._rules.batch_limit
        if own.events:
            at = self._fill(own, events)
            if len(own.events) == limit:
                own.position = offsets[at - 1] + 1
                self._send(partition, own, now)
        if whole := (len(events) - at) // limit:
            ends = range(at + limit, at + whole * limit + 1, limit)
            self._ready += [FeedBatch(partition, offsets[end - 1] + 1, events[end - limit : end]) for end in ends]
            own.keep_alives, own.sent_at = 0, now
        self._fill(own, events[at + whole * limit :])
        own.position = position
        if self._left is not None:
            self._left -= len(events)

    def take(self, now: float) -> Sequence[FeedBatch]:
        """Return the batches to send at *now*, in order; this can end the stream."""
        if self._is_closed:
            return ()
        self._flush(now)
        while self._size > self._rules.bytes_max:
            heaviest = max(self._partitions, key=lambda partition: self._partitions[partition].size)
            self._send(heaviest, self._partitions[heaviest], now)
        if self._is_over(now):
            for partition, own in self._partitions.items():
                if own.events:
                    self._send(partition, own, now)
            self._is_closed = True
        ready, self._ready = self._ready, []
        return ready

    def _fill(self, own: "_PartitionBuffer", events: Sequence[bytes]) -> int:
        """Queue events up to a full batch; return how many."""
        taken = events[: self._rules.batch_limit - len(own.events)]
        size = sum(map(len, taken)) + EVENT_OVERHEAD * len(taken)
        own.events += taken
        own.size += size
        self._size += size
        return len(taken)

    def _flush(self, now: float) -> None:
        """Send a batch or a keep-alive of each partition that was silent for too long."""
        for partition, own in self._partitions.items():
            if now >= own.sent_at + self._rules.flush_timeout:
                self._send(partition, own, now)

    def _is_over(self, now: float) -> bool:
        keep_alives = self._rules.keep_alive_limit
        is_idle = 0 < keep_alives <= min((each.keep_alives for each in self._partitions.values()), default=0)
        return self._left == 0 or is_idle or now >= self._ends_at

    def _send(self, partition: int, own: "_PartitionBuffer", now: float) -> None:
        self._ready.append(FeedBatch(partition, own.position, own.events))
        own.keep_alives = 0 if own.events else own.keep_alives + 1
        self._size -= own.size
        own.events, own.size, own.sent_at = [], 0, now


class _PartitionBuffer:
    """The queue of one partition."""

    __slots__ = ("events", "keep_alives", "position", "sent_at", "size")

    def __init__(self, position: int, now: float) -> None:
        self.events: list[bytes] = []
        self.position = position
        self.size = 0
        self.sent_at = now
        self.keep_alives = 0
