"""Delivers a subscription's events to one stream: which events to send, and when and why the stream ends.

No I/O and no clock: the caller passes the events that were read, the positions that were committed, and the time, in
seconds of a monotonic clock.

Source: Nakadi's subscription streams, https://nakadi.io/manual.html, and docs/decisions/nakadi-contract.md.

Invariants:
    Batches of a partition hold its events in order, each once, from the committed position on.
    The offsets between the committed and the sent position, over all partitions, never exceed the window.
    A stream ends once, and gives a reason.
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import chain
from typing import Final, NamedTuple, overload

import msgspec

from penstock.core.log.batching import EVENT_OVERHEAD
from penstock.core.log.details import EventDetails
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.tokens import ParkedSpan

KEEP_ALIVE_SECONDS: Final = 1.0


class DeliveryRules(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one stream. Times are seconds."""

    max_uncommitted: int
    """The window: how many offsets, over all partitions, the sent positions can be ahead of the committed ones."""
    batch_limit: int
    """Number of events in a full batch, at least 1."""
    stream_limit: int = 0
    """The stream ends once this number of events is sent and committed; 0: no limit."""
    flush_timeout: float
    """A partition that was silent for this long sends the events that it has; without events a keep-alive, at most one
    each `KEEP_ALIVE_SECONDS`."""
    timespan_seconds: float = 0.0
    """The reception times of the events in a batch differ by no more than this; 0: no limit."""
    timeout: float = math.inf
    keep_alive_limit: int = 0
    """The stream ends once each partition has sent this number of keep-alives in a row; 0: no limit."""
    commit_timeout: float
    """The stream ends this long after the last commit, if sent events are not committed."""
    bytes_max: int
    """Upper bound of the bytes that wait to be sent."""
    has_details: bool = False
    """Whether batches have the details of their events."""


class JoinedEvents(Sequence[bytes]):
    """Events still joined as the database has returned them, so that all of them can be sent without splitting."""

    __slots__ = ("_count", "data")

    def __init__(self, data: bytes, count: int) -> None:
        """Take *count* events, separated by line breaks."""
        self.data = data
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        return self.data.split(b"\n")[at]


class EventChunk(NamedTuple):
    """Events that were read of a partition at once."""

    events: Sequence[bytes]
    offsets: Sequence[int]
    position: int
    """The next offset to read after them. Missing offsets below it were filtered out, and are not read again."""
    received: Sequence[float] = ()
    """The time in seconds at which each event was received; needed only if batches are limited by timespan."""
    details: EventDetails | None = None
    """The details of the events, if batches have them."""


class OutgoingEvents(NamedTuple):
    """Events that leave the queue of a partition together."""

    events: Sequence[bytes]
    position: int
    """The next offset after them."""
    offsets: Sequence[int] = ()
    """The offsets of the events; empty if they are consecutive up to *position*."""
    details: EventDetails | None = None


class PartitionQueue:
    """The queue and the positions of one partition. Not thread-safe."""

    __slots__ = (
        "_pieces",
        "committed",
        "keep_alives",
        "known",
        "read",
        "sent",
        "sent_at",
        "single_until",
        "size",
        "waiting",
        "withdrawn_at",
    )  # fmt: skip

    def __init__(self, committed: int, now: float) -> None:
        self.known = committed
        """The committed position, as stored."""
        self.committed = committed
        """The committed position, moved past the filtered-out events that follow it."""
        self.sent = committed
        self.read = committed
        self.waiting = 0
        """Number of events that wait to be sent."""
        self.size = 0
        """Memory of the events that wait, in bytes."""
        self.sent_at = now
        self.keep_alives = 0
        self.single_until = 0
        self.withdrawn_at: float | None = None
        self._pieces: deque[_Piece] = deque()

    @property
    def ahead(self) -> int:
        """How many offsets the sent position is ahead of the committed one."""
        return self.sent - self.committed

    def add(self, read: EventChunk) -> None:
        """Append a chunk; events below a position that was committed meanwhile are skipped."""
        piece = _Piece(read)
        piece.skip(bisect_left(read.offsets, self.read))
        if piece.left:
            self._pieces.append(piece)
            self.waiting += piece.left
            self.size += piece.size
        self.read = max(self.read, read.position)

    def commit(self, position: int) -> None:
        """Record that all events below *position* are committed, whether they were sent or not."""
        self.known = position
        self.committed = max(self.committed, position)
        if position > self.sent:
            self._forget(self._count_below(position))
            self.sent = position
            self.read = max(self.read, position)

    @property
    def is_suspected(self) -> bool:
        """True if an event that was sent alone, as it may be the poison event, is not committed yet."""
        return self.committed < self.single_until and self.ahead > 0

    def take(self, count: int, window: int) -> OutgoingEvents:
        """Return up to *count* events within *window* offsets after the sent position; record them as sent."""
        if not self.ahead and self.waiting:
            self.committed = self.sent = self._pieces[0].offset  # Filtered events before it take no room in the window.
        count = min(count, self._count_below(self.sent + window))
        if count <= 0:
            return OutgoingEvents((), self.sent)
        # Filtered events after the last one count as sent with it, within the window.
        is_all = count == self.waiting
        first = self._pieces[0].offset
        events, offsets, details = self._cut(count)
        self.sent = min(self.read, self.sent + window) if is_all else offsets[-1][-1] + 1
        missing = () if first + count == self.sent else [*chain.from_iterable(offsets)]
        return OutgoingEvents(events, self.sent, missing, EventDetails.join(details) if details else None)

    def take_batches(self, size: int, window: int) -> Sequence[OutgoingEvents]:
        """Return several batches of *size* events within *window*.

        They equal those that `take` would return one by one. Return none if there are fewer than two in the first
        chunk.
        """
        piece = self._pieces[0]
        first = piece.offset
        if not isinstance(piece.offsets, range) or piece.left < 2 * size:
            return []
        end = (self.sent if self.ahead else first) + window
        count = min(piece.left, end - first) // size * size
        if count <= 0:
            return []
        if not self.ahead:
            self.committed = first
        events = piece.next(count)
        details = [piece.next_details(at, at + size) for at in range(0, count, size)]
        self._forget(count)
        self.sent = first + count if self.waiting else min(self.read, end)
        found = [
            OutgoingEvents(events[at : at + size], first + at + size, details=each)
            for at, each in zip(range(0, count, size), details, strict=True)
        ]
        if self.sent > found[-1].position:
            found[-1] = found[-1]._replace(position=self.sent, offsets=range(first + count - size, first + count))
        return found

    def count_spanned(self, seconds: float) -> int:
        """Return how many queued events lie within *seconds* of the first; one more than are queued if all do."""
        if not seconds or not self.waiting:
            return self.waiting + 1
        end = self._pieces[0].received_at + seconds
        count = 0
        for piece in self._pieces:
            within = bisect_left(piece.received, end, piece.first) - piece.first
            count += within
            if within < piece.left:
                return count
        return self.waiting + 1

    def drop(self) -> None:
        """Drop the queued events; the next owner reads them again."""
        if not self.waiting:
            return  # Filtered events after the sent position need not be read again.
        self._pieces.clear()
        self.waiting = self.size = 0
        self.read = self.sent

    def _count_below(self, offset: int) -> int:
        """Return how many queued events have an offset below *offset*."""
        count = 0
        for piece in self._pieces:
            if piece.offsets[-1] >= offset:
                return count + bisect_left(piece.offsets, offset, piece.first) - piece.first
            count += piece.left
        return count

    def _cut(self, count: int) -> tuple[Sequence[bytes], list[Sequence[int]], list[EventDetails]]:
        """Remove *count* events, and return them with their offsets and details, in pieces."""
        piece = self._pieces[0]
        if piece.first == 0 and piece.left == count:  # The whole chunk, without splitting it.
            self._forget(count)
            return piece.events, [piece.offsets], [] if piece.details is None else [piece.details]
        found: list[bytes] = []
        offsets: list[Sequence[int]] = []
        details: list[EventDetails] = []
        left = count
        for piece in self._pieces:
            part = min(left, piece.left)
            found += piece.next(part)
            offsets.append(piece.offsets[piece.first : piece.first + part])
            if (each := piece.next_details(0, part)) is not None:
                details.append(each)
            left -= part
            if not left:
                break
        self._forget(count)
        return found, offsets, details

    def _forget(self, count: int) -> None:
        self.waiting -= count
        while count:
            piece = self._pieces[0]
            part = min(count, piece.left)
            before = piece.size
            piece.skip(part)
            self.size -= before - piece.size
            count -= part
            if not piece.left:
                self._pieces.popleft()


class _Piece:
    """The queued rest of one chunk."""

    __slots__ = ("details", "events", "first", "left", "offsets", "received", "size")

    def __init__(self, read: EventChunk) -> None:
        self.events = read.events
        self.offsets = read.offsets
        self.received = read.received
        self.details = read.details
        self.first = 0
        """Index of the first event that waits."""
        self.left = len(read.events)
        size = len(read.events.data) if isinstance(read.events, JoinedEvents) else sum(map(len, read.events))
        self.size = size + EVENT_OVERHEAD * self.left

    @property
    def offset(self) -> int:
        """The offset of the next event."""
        return self.offsets[self.first]

    @property
    def received_at(self) -> float:
        """The time at which the next event was received."""
        return self.received[self.first]

    def next(self, count: int) -> Sequence[bytes]:
        """Return the next *count* events, without removing them."""
        if isinstance(self.events, JoinedEvents):
            self.events = self.events[:]
        return self.events[self.first : self.first + count]

    def next_details(self, start: int, stop: int) -> EventDetails | None:
        """Return the details of the next events, from index *start* to before *stop*."""
        return None if self.details is None else self.details.cut(self.first + start, self.first + stop)

    def skip(self, count: int) -> None:
        """Remove the next *count* events."""
        if count >= self.left:
            self.first, self.left, self.size = self.first + self.left, 0, 0
        elif count:
            self.size -= sum(map(len, self.next(count))) + EVENT_OVERHEAD * count
            self.first += count
            self.left -= count


COMMIT_TIMEOUT: Final = "Commit timeout reached"
IDLE_TIMES: Final = 2
"""A stream without partitions ends after this many commit timeouts."""


class DeliveryBatch(NamedTuple):
    """A batch of one partition."""

    place: FeedPartition
    position: int
    """The next offset that a reader of this batch wants."""
    events: Sequence[bytes] = ()
    """Empty in a keep-alive."""
    debug: str | None = None
    parked: ParkedSpan | None = None
    """Set if these are events of a parked key, sent again; their commit moves no position."""
    offsets: Sequence[int] = ()
    """The offsets of the events; empty if they are consecutive up to *position*."""
    details: EventDetails | None = None


class SubscriptionDelivery:
    """The partitions of one stream, and its batches. Not thread-safe."""

    def __init__(self, rules: DeliveryRules, now: float) -> None:
        self._rules = rules
        self._queues: dict[FeedPartition, PartitionQueue] = {}
        self._resent: dict[int, tuple[FeedPartition, ParkedSpan]] = {}
        self._final_position: tuple[FeedPartition, int] | None = None
        self._began = now
        self._idle_since: float | None = now
        self._waits_since = now
        """The time since which the stream waits for a commit, if any event is uncommitted."""
        self._sent = 0
        self._ahead = 0
        """Offsets that were sent and not committed, over all partitions."""
        self._debug: str | None = "Stream started"
        self._reason: str | None = None

    # Input

    def assign(self, place: FeedPartition, committed: int, now: float) -> None:
        """Add a partition to the stream; *committed* is the next offset to send."""
        self._queues[place] = PartitionQueue(committed, now)
        self._idle_since = None

    def withdraw(self, place: FeedPartition, now: float) -> None:
        """Stop sending a partition; another stream gets it once the sent events are committed."""
        queue = self._queues[place]
        queue.drop()
        queue.withdrawn_at = now

    def keep(self, place: FeedPartition) -> None:
        """Resume sending a partition that was withdrawn: no other stream gets it."""
        self._queues[place].withdrawn_at = None

    def remove(self, place: FeedPartition, now: float) -> None:
        """Remove a partition from the stream."""
        self._ahead -= self._queues.pop(place).ahead
        self._resent = {key: each for key, each in self._resent.items() if each[0] != place}
        if not self._queues:
            self._idle_since = now

    def set_final_position(self, place: FeedPartition, position: int) -> None:
        """Set the partition and position of the final batch in case the stream ends without any partition."""
        self._final_position = (place, position)

    def resend(self, place: FeedPartition, span: ParkedSpan, read: EventChunk, now: float) -> DeliveryBatch:
        """Return the batch that sends events of a parked key again; they count for the commit timeout."""
        if not self._ahead and not self._resent:
            self._waits_since = now
        self._resent[span.parked_id] = place, span
        debug, self._debug = self._debug, None
        debug = debug or "Parked events"
        return DeliveryBatch(place, self._queues[place].sent, read.events, debug, span, read.offsets, read.details)

    def acknowledge(self, parked_id: int, now: float) -> None:
        """Record that the resent events of a parked key are committed."""
        if self._resent.pop(parked_id, None) is not None:
            self._waits_since = now

    def single_out(self, place: FeedPartition, until: int) -> None:
        """Send the events of a partition below *until* one by one, each after all before it are committed."""
        self._queues[place].single_until = until

    def add(self, place: FeedPartition, read: EventChunk) -> None:
        """Append a chunk that was read of a partition."""
        self._queues[place].add(read)

    def skip(self, place: FeedPartition, position: int) -> None:
        """Continue at *position*: retention has removed the events before it. The next batch reports their number."""
        queue = self._queues[place]
        if position > queue.read:
            lost = f"skipped events due to retention time passed, count: {position - queue.read}"
            self._debug = f"{self._debug}; {lost}" if self._debug else lost
            queue.read = position

    def extend(self, now: float) -> None:
        """Restart the commit timeout."""
        self._waits_since = now
        for queue in self._queues.values():
            if queue.withdrawn_at is not None:
                queue.withdrawn_at = now

    def commit(self, place: FeedPartition, position: int, now: float) -> None:
        """Record that all events of a partition below *position* are committed, by this stream or by a reset."""
        queue = self._queues.get(place)
        if queue is None or position <= queue.known:
            return
        before = queue.ahead
        queue.commit(position)
        self._ahead += queue.ahead - before
        self._waits_since = now

    # State

    @property
    def reason(self) -> str | None:
        """The reason for which the stream has ended; None: it has not."""
        return self._reason

    @property
    def places(self) -> Collection[FeedPartition]:
        """The partitions of the stream."""
        return self._queues.keys()

    @property
    def resent(self) -> Mapping[int, ParkedSpan]:
        """The resent and uncommitted events of parked keys, by the ids of the keys."""
        return {parked_id: span for parked_id, (_, span) in self._resent.items()}

    @property
    def resent_places(self) -> Collection[FeedPartition]:
        """The partitions of those keys."""
        return {place for place, _ in self._resent.values()}

    @property
    def uncommitted(self) -> Mapping[FeedPartition, int]:
        """The sent position of each partition that has sent and uncommitted offsets."""
        return {place: queue.sent for place, queue in self._queues.items() if queue.ahead}

    @property
    def committing_until(self) -> float:
        """Time at which the commit timeout ends."""
        return self._waits_since + self._rules.commit_timeout

    def has_sent(self, place: FeedPartition, position: int) -> bool:
        """Return whether the stream owns the partition, and has sent all its events below *position*."""
        queue = self._queues.get(place)
        return queue is not None and position <= queue.sent

    def position(self, place: FeedPartition) -> int:
        """Return the committed position of a partition of the stream."""
        return self._queues[place].known

    def is_withdrawn(self, place: FeedPartition) -> bool:
        """Return whether a partition of the stream is withdrawn."""
        return self._queues[place].withdrawn_at is not None

    @property
    def released_partitions(self) -> Collection[FeedPartition]:
        """The withdrawn partitions without uncommitted events; another stream can get them now."""
        idle = [place for place, queue in self._queues.items() if queue.withdrawn_at is not None and not queue.ahead]
        return [place for place in idle if all(place != busy for busy, _ in self._resent.values())]

    def find_overdue(self, now: float) -> Collection[FeedPartition]:
        """Return the withdrawn partitions whose commit timeout is over."""
        return [
            place
            for place, queue in self._queues.items()
            if queue.withdrawn_at is not None and queue.ahead and now >= queue.withdrawn_at + self._rules.commit_timeout
        ]

    @property
    def filtered_positions(self) -> Mapping[FeedPartition, int]:
        """The positions that can be committed without the consumer: all events below them were filtered out."""
        return {
            place: queue.read
            for place, queue in self._queues.items()
            if queue.withdrawn_at is None and not queue.ahead and not queue.waiting and queue.read > queue.known
        }

    @property
    def wanted_offsets(self) -> Mapping[FeedPartition, int]:
        """The next offset to read of each partition whose queue has room."""
        if self._size > self._rules.bytes_max or self._reason is not None:
            return {}
        enough = min(self._rules.max_uncommitted, self._rules.batch_limit)
        return {
            place: queue.read
            for place, queue in self._queues.items()
            if queue.withdrawn_at is None and queue.waiting < enough
        }

    @property
    def due_at(self) -> float:
        """Time at which `take` next returns a batch if nothing happens before."""
        flushes = [self._flush_at(queue) for queue in self._queues.values() if queue.withdrawn_at is None]
        return min([*flushes, *self._list_end_times()])

    @property
    def ends_at(self) -> float:
        """Latest time at which the stream ends, unless something is committed before."""
        return min(self._list_end_times())

    # Output

    def take(self, now: float) -> Sequence[DeliveryBatch]:
        """Return the batches to send at *now*, in order; this can end the stream."""
        if self._reason is not None:
            return ()
        found: list[DeliveryBatch] = []
        self._send_due(self._queues, now, found)
        while self._size > self._rules.bytes_max and (heaviest := self._find_heaviest()) is not None:
            self._debug = self._debug or "Stream parameters are causing overflow"
            queue = self._queues[heaviest]
            self._send(heaviest, queue, self._batch_size(queue), now, found)
        reason = self._find_end(now)
        if reason is not None:
            if now >= self._began + self._rules.timeout:
                for place, queue in self._queues.items():
                    self._send(place, queue, self._batch_size(queue), now, found, keeps_alive=False)
            found += self.end(reason)
        return found

    def take_one(self, place: FeedPartition, now: float) -> Sequence[DeliveryBatch]:
        """Return a full batch of one partition, if the window has room for it.

        If too many bytes wait, return the batches that `take` returns.
        """
        if self._size > self._rules.bytes_max:
            return self.take(now)
        found: list[DeliveryBatch] = []
        if self._reason is None and (queue := self._queues[place]).withdrawn_at is None:
            self._send_whole(place, queue, now, found)
        return found

    def expire(self, now: float) -> Sequence[DeliveryBatch]:
        """End the stream if a timeout or limit is reached, without sending more events; return the final batch."""
        reason = self._find_end(now)
        return () if reason is None else self.end(reason)

    def end(self, reason: str) -> Sequence[DeliveryBatch]:
        """End the stream, and return the batch that gives the reason."""
        if self._reason is not None:
            return ()
        self._reason = reason
        for queue in self._queues.values():
            queue.drop()
        first = min(self._queues, default=None)
        place, position = (first, self._queues[first].sent) if first else self._final_position or (None, 0)
        return [] if place is None else [DeliveryBatch(place, position, (), reason)]

    @property
    def _size(self) -> int:
        return sum(queue.size for queue in self._queues.values())

    @property
    def _left(self) -> int:
        """Number of offsets that the window still has room for."""
        return self._rules.max_uncommitted - self._ahead

    def _send_due(self, places: Iterable[FeedPartition], now: float, outgoing: list[DeliveryBatch]) -> None:
        """Send full batches, and flush partitions that were silent for too long.

        The next batch is always that of the partition with the fewest uncommitted offsets, so that a busy partition or
        a slow consumer leaves the others room in the window.
        """
        queues = [(place, queue) for place in places if (queue := self._queues[place]).withdrawn_at is None]
        turns = [(queue.ahead, at) for at, (_, queue) in enumerate(queues) if queue.waiting]
        heapify(turns)
        if len(turns) == 1:
            self._send_many(*queues[turns[0][1]], now, outgoing)
        while turns:
            place, queue = queues[turns[0][1]]
            if self._send_whole(place, queue, now, outgoing):
                heapreplace(turns, (queue.ahead, turns[0][1]))
            else:
                heappop(turns)
        for place, queue in queues:
            if now >= self._flush_at(queue):
                self._send(place, queue, self._batch_size(queue), now, outgoing)

    def _flush_at(self, queue: PartitionQueue) -> float:
        """Return when the partition sends a batch that is not full, or a keep-alive, if nothing is sent before."""
        timeout = self._rules.flush_timeout
        if timeout < KEEP_ALIVE_SECONDS and not (queue.waiting and self._batch_size(queue)):
            timeout = KEEP_ALIVE_SECONDS
        return queue.sent_at + timeout

    def _send_many(
        self, place: FeedPartition, queue: PartitionQueue, now: float, outgoing: list[DeliveryBatch]
    ) -> None:
        """Send all full batches of a partition that can be cut without examining each event."""
        rules = self._rules
        if rules.stream_limit or rules.timespan_seconds or queue.single_until > queue.committed:
            return
        before = queue.ahead
        batches = queue.take_batches(rules.batch_limit, self._left)
        if not batches:
            return
        self._note_sent(queue, before, rules.batch_limit * len(batches), now)
        outgoing += [
            DeliveryBatch(place, each.position, each.events, offsets=each.offsets, details=each.details)
            for each in batches
        ]
        outgoing[-len(batches)] = outgoing[-len(batches)]._replace(debug=self._debug)
        self._debug = None

    def _send_whole(
        self, place: FeedPartition, queue: PartitionQueue, now: float, outgoing: list[DeliveryBatch]
    ) -> bool:
        """Send one full batch of a partition if there is one; return whether it was sent."""
        size = self._batch_size(queue)
        if not 0 < size <= queue.waiting:
            return False
        before = queue.sent
        self._send(place, queue, size, now, outgoing)
        return queue.sent != before

    def _batch_size(self, queue: PartitionQueue) -> int:
        """Return the size of the next batch; 0: none can be sent."""
        if queue.is_suspected:
            return 0
        if queue.single_until > queue.sent and any(each.is_suspected for each in self._queues.values()):
            return 0  # Two suspects sent at the same time would both count as failed if one of them fails.
        limit = 1 if queue.single_until > queue.sent else self._rules.batch_limit
        more = self._rules.stream_limit - self._sent if self._rules.stream_limit else limit
        spanned = queue.count_spanned(self._rules.timespan_seconds)
        return max(0, min(limit, self._left, more, spanned))

    def _send(
        self,
        place: FeedPartition,
        queue: PartitionQueue,
        size: int,
        now: float,
        outgoing: list[DeliveryBatch],
        *,
        keeps_alive: bool = True,
    ) -> None:
        """Send up to *size* events of a partition, within the window; if there are none, a keep-alive.

        Send no keep-alive unless *keeps_alive*.
        """
        more = self._rules.stream_limit - self._sent if self._rules.stream_limit else queue.waiting
        before = queue.ahead
        taken = queue.take(min(size, more), self._left)
        if not taken.events and not keeps_alive:
            return
        self._note_sent(queue, before, len(taken.events), now)
        outgoing.append(
            DeliveryBatch(place, queue.sent, taken.events, self._debug, offsets=taken.offsets, details=taken.details)
        )
        self._debug = None

    def _note_sent(self, queue: PartitionQueue, before: int, events: int, now: float) -> None:
        """Update the counters after a batch or keep-alive; *before* is how far the partition was ahead."""
        if events and not self._ahead and not self._resent:
            self._waits_since = now
        self._ahead += queue.ahead - before
        self._sent += events
        is_held_up = queue.waiting > 0
        queue.keep_alives = 0 if events or is_held_up else queue.keep_alives + 1
        queue.sent_at = now

    def _find_heaviest(self) -> FeedPartition | None:
        """Return the partition with the most bytes that can be sent."""
        able = [place for place, queue in self._queues.items() if queue.waiting and self._batch_size(queue) > 0]
        return max(able, key=lambda place: self._queues[place].size, default=None)

    def _list_end_times(self) -> list[float]:
        """Return the time of each timeout that can end the stream."""
        rules = self._rules
        found = [self._began + rules.timeout]
        if self._ahead or self._resent:
            found.append(self._waits_since + rules.commit_timeout)
        if self._idle_since is not None:
            found.append(self._idle_since + IDLE_TIMES * rules.commit_timeout)
        found += [
            queue.withdrawn_at + rules.commit_timeout
            for queue in list(self._queues.values())  # A copy: the sender calls this while a step removes partitions.
            if queue.withdrawn_at is not None and queue.ahead
        ]
        return found

    def _find_end(self, now: float) -> str | None:
        rules = self._rules
        if now >= self._began + rules.timeout:
            return "Stream timeout reached"
        if (self._ahead or self._resent) and now >= self._waits_since + rules.commit_timeout:
            return COMMIT_TIMEOUT
        if rules.stream_limit and self._sent >= rules.stream_limit and not self._ahead:
            return f"Stream limit in events reached: {self._sent}"
        silent = min((queue.keep_alives for queue in self._queues.values()), default=0)
        if 0 < rules.keep_alive_limit <= silent:
            return f"Keep-alive limit reached: {rules.keep_alive_limit}"
        if self._idle_since is not None and now >= self._idle_since + IDLE_TIMES * rules.commit_timeout:
            return "No partition was free for this stream"
        if self.find_overdue(now):
            return "A partition was reassigned and not committed in time"
        return None
