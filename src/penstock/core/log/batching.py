"""Cuts a stream's events into batches: decides what to send now, and when to look again.

No I/O and no clock: the caller hands in what it has read, and the time, in seconds of any clock that does not go
back.

Source: Nakadi's low-level API, https://nakadi.io/manual.html.

Invariants:
    Batches of a partition hold its events in their order, each once; nothing behind a limit is sent.
    What waits to be sent has at most `bytes_max` bytes, except for what was added last.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

EVENT_OVERHEAD: Final = 48
"""What an event takes in memory beside its bytes: a stream of empty objects is bounded, too."""


class FeedStreamRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream wants its events."""

    batch_limit: int
    """How many events make a batch, at least 1."""
    stream_limit: int
    """The stream ends after so many events; 0: it does not."""
    flush_timeout: float
    """A partition sends what it has, or that it has nothing, so long after it has last sent anything."""
    timeout: float
    """The stream ends after so long a time."""
    keep_alive_limit: int
    """The stream ends once every partition has said so often in a row that it has nothing; 0: it does not."""
    bytes_max: int
    """How much may wait to be sent."""


class FeedBatch(NamedTuple):
    """What is to be sent of one partition."""

    partition: int
    position: int
    """The offset wanted next by whoever has this batch."""
    events: Sequence[bytes]
    """None in a keep-alive."""


class FeedBatcher:
    """The batches of one stream. Not safe to use from two threads at once."""

    def __init__(self, rules: FeedStreamRules, positions: Mapping[int, int], now: float) -> None:
        """Begin at *now*, with the offset wanted next of each partition."""
        self._rules = rules
        self._partitions: dict[int, _Partition] = {}
        self._ready: list[FeedBatch] = []
        self._left = rules.stream_limit or None
        self._size = 0
        self._ends_at = now + rules.timeout
        self._closed = False
        for partition, position in positions.items():
            self.begin(partition, position, now)

    @property
    def closed(self) -> bool:
        """Whether the stream has ended: nothing is to be sent after what `take` has given."""
        return self._closed

    @property
    def left(self) -> int | None:
        """How many more events it takes; None: any number."""
        return self._left

    @property
    def size(self) -> int:
        """How many bytes wait to be sent, and what they take in memory besides."""
        return self._size

    @property
    def ends_at(self) -> float:
        """When the stream's time is up."""
        return self._ends_at

    @property
    def due_at(self) -> float:
        """When `take` has something next, if nothing is added before."""
        first = min((each.sent_at for each in self._partitions.values()), default=self._ends_at)
        return min(first + self._rules.flush_timeout, self._ends_at)

    def begin(self, partition: int, position: int, now: float) -> None:
        """Have a partition among the others from *now* on, with the offset wanted next."""
        self._partitions[partition] = _Partition(position, now)

    def add(self, partition: int, events: Sequence[bytes], offsets: Sequence[int], position: int, now: float) -> None:
        """Take what was read of a partition: *events* at *offsets*, and the offset wanted next after all of it.

        What lies between was left out by whoever read it, and is not wanted again. Events beyond the stream's limit are
        not taken.
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
        """Return what is to be sent at *now*, in this order; it may close the stream."""
        if self._closed:
            return ()
        self._flush(now)
        while self._size > self._rules.bytes_max:
            heaviest = max(self._partitions, key=lambda partition: self._partitions[partition].size)
            self._send(heaviest, self._partitions[heaviest], now)
        if self._is_over(now):
            for partition, own in self._partitions.items():
                if own.events:
                    self._send(partition, own, now)
            self._closed = True
        ready, self._ready = self._ready, []
        return ready

    def _fill(self, own: "_Partition", events: Sequence[bytes]) -> int:
        """Have events wait until there are enough for a batch; return how many."""
        taken = events[: self._rules.batch_limit - len(own.events)]
        size = sum(map(len, taken)) + EVENT_OVERHEAD * len(taken)
        own.events += taken
        own.size += size
        self._size += size
        return len(taken)

    def _flush(self, now: float) -> None:
        """Have every partition speak that has been silent for too long."""
        for partition, own in self._partitions.items():
            if now >= own.sent_at + self._rules.flush_timeout:
                self._send(partition, own, now)

    def _is_over(self, now: float) -> bool:
        keep_alives = self._rules.keep_alive_limit
        is_idle = 0 < keep_alives <= min((each.keep_alives for each in self._partitions.values()), default=0)
        return self._left == 0 or is_idle or now >= self._ends_at

    def _send(self, partition: int, own: "_Partition", now: float) -> None:
        self._ready.append(FeedBatch(partition, own.position, own.events))
        own.keep_alives = 0 if own.events else own.keep_alives + 1
        self._size -= own.size
        own.events, own.size, own.sent_at = [], 0, now


class _Partition:
    """What waits of one partition."""

    __slots__ = ("events", "keep_alives", "position", "sent_at", "size")

    def __init__(self, position: int, now: float) -> None:
        self.events: list[bytes] = []
        self.position = position
        self.size = 0
        self.sent_at = now
        self.keep_alives = 0
