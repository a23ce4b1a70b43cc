"""Delivers a subscription's events to one stream: what may be sent, what is committed, when it ends, and why.

No I/O and no clock: the caller hands in what was read and what was committed, and the time, in seconds of any clock
that does not go back.

Source: Nakadi's subscription streams, https://nakadi.io/manual.html, and docs/decisions/nakadi-contract.md.

Invariants:
    Batches of a partition hold its events in their order, each once, from the committed position on.
    What is sent and not committed, events that are left out between included, never exceeds the window.
    A stream ends once, and says why.
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import chain
from typing import Final, NamedTuple, overload

import msgspec

from penstock.core.subscriptions.assignment import FeedPartition, ParkedSpan


class DeliveryRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream wants its events. Times are seconds."""

    max_uncommitted: int
    """How far what is sent may be ahead of what is committed, in offsets, over all partitions."""
    batch_limit: int
    """How many events make a batch, at least 1."""
    stream_limit: int = 0
    """The stream ends once so many events are sent and committed; 0: it does not."""
    flush_timeout: float
    """A partition sends what it has, or that it has nothing, so long after it has last sent anything."""
    timespan_seconds: float = 0.0
    """A batch spans no more than so long a time in which its events were received; 0: any."""
    timeout: float = math.inf
    keep_alive_limit: int = 0
    """The stream ends once every partition has said so often in a row that it has nothing; 0: it does not."""
    commit_timeout: float
    """The stream ends so long after the last commit, if anything that was sent is not committed."""
    bytes_max: int
    """How much may wait to be sent."""


EVENT_OVERHEAD: Final = 48
"""What an event takes in memory beside its bytes: a stream of empty objects is bounded, too."""


class JoinedEvents(Sequence[bytes]):
    """Events that are still the one value in which they were read: whoever sends all of them need not look at each."""

    __slots__ = ("_count", "data")

    def __init__(self, data: bytes, count: int) -> None:
        """Take *count* events with a line break between any two of them."""
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
    """What was read of a partition."""

    events: Sequence[bytes]
    offsets: Sequence[int]
    position: int
    """The offset wanted next after all of it; what lies between was left out, and is not wanted again."""
    received: Sequence[float] = ()
    """When each of them was received, in seconds of its own clock; needed where batches are cut by it."""


class OutgoingEvents(NamedTuple):
    """What is taken out at once."""

    events: Sequence[bytes]
    position: int
    """The offset wanted next after it."""
    offsets: Sequence[int] = ()
    """Those of the events, where these do not follow each other up to right before *position*."""


class PartitionQueue:
    """One partition. Not safe to use from two threads at once."""

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
        """What is known to be stored as committed …"""
        self.committed = committed
        """… and the same without events that were left out behind it."""
        self.sent = committed
        self.read = committed
        self.waiting = 0
        """How many events wait to be sent …"""
        self.size = 0
        """… and what memory they take."""
        self.sent_at = now
        self.keep_alives = 0
        self.single_until = 0
        self.withdrawn_at: float | None = None
        self._pieces: deque[_Piece] = deque()

    @property
    def ahead(self) -> int:
        """How far what is sent is ahead of what is committed."""
        return self.sent - self.committed

    def add(self, read: EventChunk) -> None:
        """Take what was read behind what was read before; a commit may have come past some of it meanwhile."""
        piece = _Piece(read)
        piece.skip(bisect_left(read.offsets, self.read))
        if piece.left:
            self._pieces.append(piece)
            self.waiting += piece.left
            self.size += piece.size
        self.read = max(self.read, read.position)

    def commit(self, position: int) -> None:
        """Take note that everything below *position* is committed, whether it was sent or not."""
        self.known = position
        self.committed = max(self.committed, position)
        if position > self.sent:
            self._forget(self._below(position))
            self.sent = position
            self.read = max(self.read, position)

    @property
    def is_suspected(self) -> bool:
        """Whether an event is not committed that was sent alone, since one like it may have failed."""
        return self.committed < self.single_until and self.ahead > 0

    def take(self, count: int, window: int) -> OutgoingEvents:
        """Return up to *count* events that lie within *window* offsets after what was sent, and count them as sent."""
        if not self.ahead and self.waiting:
            self.committed = self.sent = self._pieces[0].offset  # What was left out before it takes no room.
        count = min(count, self._below(self.sent + window))
        if count <= 0:
            return OutgoingEvents((), self.sent)
        # What was left out behind the last of them goes with it, as far as the window reaches.
        is_all = count == self.waiting
        first = self._pieces[0].offset
        events, offsets = self._cut(count)
        self.sent = min(self.read, self.sent + window) if is_all else offsets[-1][-1] + 1
        return OutgoingEvents(events, self.sent, () if first + count == self.sent else [*chain.from_iterable(offsets)])

    def take_batches(self, size: int, window: int) -> Sequence[OutgoingEvents]:
        """Return several batches of *size* events that lie within *window*.

        They are those that `take` would return one by one; none where it is not known at once that there are two.
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
        self._forget(count)
        self.sent = first + count if self.waiting else min(self.read, end)
        found = [OutgoingEvents(events[at : at + size], first + at + size) for at in range(0, count, size)]
        if self.sent > found[-1].position:
            found[-1] = OutgoingEvents(found[-1].events, self.sent, range(first + count - size, first + count))
        return found

    def spanned(self, seconds: float) -> int:
        """Return how many events a batch may have that spans *seconds*; more than there are where none lies beyond."""
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
        """Forget what waits to be sent: it is read again, by whoever has it next."""
        if not self.waiting:
            return  # What was left out since the last event need not be read again.
        self._pieces.clear()
        self.waiting = self.size = 0
        self.read = self.sent

    def _below(self, offset: int) -> int:
        """Return how many of the events that wait lie below *offset*."""
        count = 0
        for piece in self._pieces:
            if piece.offsets[-1] >= offset:
                return count + bisect_left(piece.offsets, offset, piece.first) - piece.first
            count += piece.left
        return count

    def _cut(self, count: int) -> tuple[Sequence[bytes], list[Sequence[int]]]:
        """Take so many events out, and return them with their offsets, in parts."""
        piece = self._pieces[0]
        if piece.first == 0 and piece.left == count:  # As they were read: nobody looks at each.
            self._forget(count)
            return piece.events, [piece.offsets]
        found: list[bytes] = []
        offsets: list[Sequence[int]] = []
        left = count
        for piece in self._pieces:
            part = min(left, piece.left)
            found += piece.next(part)
            offsets.append(piece.offsets[piece.first : piece.first + part])
            left -= part
            if not left:
                break
        self._forget(count)
        return found, offsets

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
    """What was read at once, as far as it waits."""

    __slots__ = ("events", "first", "left", "offsets", "received", "size")

    def __init__(self, read: EventChunk) -> None:
        self.events = read.events
        self.offsets = read.offsets
        self.received = read.received
        self.first = 0
        """What is before it does not wait."""
        self.left = len(read.events)
        size = len(read.events.data) if isinstance(read.events, JoinedEvents) else sum(map(len, read.events))
        self.size = size + EVENT_OVERHEAD * self.left

    @property
    def offset(self) -> int:
        """Of the next."""
        return self.offsets[self.first]

    @property
    def received_at(self) -> float:
        """When the next was received."""
        return self.received[self.first]

    def next(self, count: int) -> Sequence[bytes]:
        """Return the next."""
        if isinstance(self.events, JoinedEvents):
            self.events = self.events[:]
        return self.events[self.first : self.first + count]

    def skip(self, count: int) -> None:
        """Let the next wait no longer."""
        if count >= self.left:
            self.first, self.left, self.size = self.first + self.left, 0, 0
        elif count:
            self.size -= sum(map(len, self.next(count))) + EVENT_OVERHEAD * count
            self.first += count
            self.left -= count


COMMIT_TIMEOUT: Final = "Commit timeout reached"
IDLE_TIMES: Final = 2
"""So many commit timeouts a stream waits without a partition."""


class DeliveryBatch(NamedTuple):
    """What is to be sent of one partition."""

    place: FeedPartition
    position: int
    """The offset wanted next by whoever has this batch."""
    events: Sequence[bytes] = ()
    """None in a keep-alive."""
    debug: str | None = None
    parked: ParkedSpan | None = None
    """These are events of a parked key, sent again; a commit of theirs moves no position."""
    offsets: Sequence[int] = ()
    """Those of the events, where these do not follow each other up to right before *position*."""


class SubscriptionDelivery:
    """The batches of one stream. Not safe to use from two threads at once."""

    def __init__(self, rules: DeliveryRules, now: float) -> None:
        self._rules = rules
        self._tracks: dict[FeedPartition, PartitionQueue] = {}
        self._resent: dict[int, tuple[FeedPartition, ParkedSpan]] = {}
        self._nowhere: tuple[FeedPartition, int] | None = None
        self._began = now
        self._alone_since: float | None = now
        self._waits_since = now
        """Since when a commit is waited for, if anything is uncommitted."""
        self._sent = 0
        self._ahead = 0
        """How far what is sent is ahead of what is committed, over all partitions."""
        self._debug: str | None = "Stream started"
        self._reason: str | None = None

    # What comes in

    def assign(self, place: FeedPartition, committed: int, now: float) -> None:
        """Have a partition, from the offset *committed* on: the one that is wanted next."""
        self._tracks[place] = PartitionQueue(committed, now)
        self._alone_since = None

    def withdraw(self, place: FeedPartition, now: float) -> None:
        """Send no more of a partition: somebody else is to have it, as soon as what was sent is committed."""
        track = self._tracks[place]
        track.drop()
        track.withdrawn_at = now

    def keep(self, place: FeedPartition) -> None:
        """Go on sending a partition that was withdrawn: nobody else is to have it after all."""
        self._tracks[place].withdrawn_at = None

    def remove(self, place: FeedPartition, now: float) -> None:
        """Have a partition no longer."""
        self._ahead -= self._tracks.pop(place).ahead
        self._resent = {key: each for key, each in self._resent.items() if each[0] != place}
        if not self._tracks:
            self._alone_since = now

    def speak_for(self, place: FeedPartition, position: int) -> None:
        """Say why the stream ends as if of that partition, which others may have, should it end without any."""
        self._nowhere = (place, position)

    def resend(
        self, place: FeedPartition, span: ParkedSpan, events: Sequence[bytes], offsets: Sequence[int], now: float
    ) -> DeliveryBatch:
        """Return the batch in which events of a parked key are sent again; they wait for a commit like others."""
        if not self._ahead and not self._resent:
            self._waits_since = now
        self._resent[span.parked_id] = place, span
        debug, self._debug = self._debug, None
        return DeliveryBatch(place, self._tracks[place].sent, events, debug or "Parked events", span, offsets)

    def acknowledge(self, parked_id: int, now: float) -> None:
        """Take note that what was sent again of a parked key is committed."""
        if self._resent.pop(parked_id, None) is not None:
            self._waits_since = now

    def single_out(self, place: FeedPartition, until: int) -> None:
        """Send the events of a partition below the offset *until* one by one, each when all before are committed."""
        self._tracks[place].single_until = until

    def add(self, place: FeedPartition, read: EventChunk) -> None:
        """Take what was read of a partition, behind what was taken before."""
        self._tracks[place].add(read)

    def skip(self, place: FeedPartition, position: int) -> None:
        """Go on at *position*: the events before it are gone; the next batch of the stream says how many."""
        track = self._tracks[place]
        if position > track.read:
            lost = f"skipped events due to retention time passed, count: {position - track.read}"
            self._debug = f"{self._debug}; {lost}" if self._debug else lost
            track.read = position

    def extend(self, now: float) -> None:
        """Begin the time anew in which what was sent has to be committed."""
        self._waits_since = now
        for track in self._tracks.values():
            if track.withdrawn_at is not None:
                track.withdrawn_at = now

    def commit(self, place: FeedPartition, position: int, now: float) -> None:
        """Take note that everything of a partition below *position* is committed: by this stream, or over its head."""
        track = self._tracks.get(place)
        if track is None or position <= track.known:
            return
        before = track.ahead
        track.commit(position)
        self._ahead += track.ahead - before
        self._waits_since = now

    # What is asked

    @property
    def reason(self) -> str | None:
        """Why nothing more is sent; None: the stream goes on."""
        return self._reason

    @property
    def places(self) -> Collection[FeedPartition]:
        """The partitions that it has."""
        return self._tracks.keys()

    @property
    def resent(self) -> Mapping[int, ParkedSpan]:
        """What was sent again of parked keys and is not committed, by the ids of the keys."""
        return {parked_id: span for parked_id, (_, span) in self._resent.items()}

    @property
    def resent_places(self) -> Collection[FeedPartition]:
        """The partitions of these keys."""
        return {place for place, _ in self._resent.values()}

    @property
    def uncommitted(self) -> Mapping[FeedPartition, int]:
        """Where what is sent is ahead of what is committed: up to which offset it is sent, by partition."""
        return {place: track.sent for place, track in self._tracks.items() if track.ahead}

    @property
    def committing_until(self) -> float:
        """When the time is over in which what was sent has to be committed."""
        return self._waits_since + self._rules.commit_timeout

    def was_sent(self, place: FeedPartition, position: int) -> bool:
        """Tell whether everything of a partition that it has was sent, up to *position*."""
        track = self._tracks.get(place)
        return track is not None and position <= track.sent

    def position(self, place: FeedPartition) -> int:
        """Return the offset below which everything of a partition that it has is known to be committed."""
        return self._tracks[place].known

    def is_withdrawn(self, place: FeedPartition) -> bool:
        """Tell whether a partition that it has is on its way to somebody else."""
        return self._tracks[place].withdrawn_at is not None

    @property
    def released(self) -> Collection[FeedPartition]:
        """The partitions that somebody else may have now."""
        idle = [place for place, track in self._tracks.items() if track.withdrawn_at is not None and not track.ahead]
        return [place for place in idle if all(place != busy for busy, _ in self._resent.values())]

    def overdue(self, now: float) -> Collection[FeedPartition]:
        """Return the partitions that somebody else is to have, and whose time to be committed is over."""
        return [
            place
            for place, track in self._tracks.items()
            if track.withdrawn_at is not None and track.ahead and now >= track.withdrawn_at + self._rules.commit_timeout
        ]

    @property
    def passed_over(self) -> Mapping[FeedPartition, int]:
        """What may be committed for the stream: partitions whose events up to there were all left out."""
        return {
            place: track.read
            for place, track in self._tracks.items()
            if track.withdrawn_at is None and not track.ahead and not track.waiting and track.read > track.known
        }

    @property
    def wanted(self) -> Mapping[FeedPartition, int]:
        """The offsets to read next, of those partitions for which there is room."""
        if self._size > self._rules.bytes_max or self._reason is not None:
            return {}
        enough = min(self._rules.max_uncommitted, self._rules.batch_limit)
        return {
            place: track.read
            for place, track in self._tracks.items()
            if track.withdrawn_at is None and track.waiting < enough
        }

    @property
    def due_at(self) -> float:
        """When `take` has something next, if nothing comes in before."""
        flushes = [
            track.sent_at + self._rules.flush_timeout for track in self._tracks.values() if track.withdrawn_at is None
        ]
        return min([*flushes, *self._ends()])

    @property
    def ends_at(self) -> float:
        """When the stream ends at the latest, unless something is committed before."""
        return min(self._ends())

    # What goes out

    def take(self, now: float) -> Sequence[DeliveryBatch]:
        """Return what is to be sent at *now*, in this order; it may end the stream."""
        if self._reason is not None:
            return ()
        found: list[DeliveryBatch] = []
        self._cut(self._tracks, now, found)
        while self._size > self._rules.bytes_max and (heaviest := self._heaviest()) is not None:
            self._debug = self._debug or "Stream parameters are causing overflow"
            track = self._tracks[heaviest]
            self._send(heaviest, track, self._batch_size(track), now, found)
        reason = self._over(now)
        if reason is not None:
            if now >= self._began + self._rules.timeout:
                for place, track in self._tracks.items():
                    self._send(place, track, self._batch_size(track), now, found, says=False)
            found += self.end(reason)
        return found

    def take_one(self, place: FeedPartition, now: float) -> Sequence[DeliveryBatch]:
        """Return a whole batch of a partition, if it has one that may be sent: the window is not for it alone.

        Where more waits than may, it is what `take` returns.
        """
        if self._size > self._rules.bytes_max:
            return self.take(now)
        found: list[DeliveryBatch] = []
        if self._reason is None and (track := self._tracks[place]).withdrawn_at is None:
            self._send_whole(place, track, now, found)
        return found

    def expire(self, now: float) -> Sequence[DeliveryBatch]:
        """End the stream if it is time to, and send nothing more before; return the batch that says why."""
        reason = self._over(now)
        return () if reason is None else self.end(reason)

    def end(self, reason: str) -> Sequence[DeliveryBatch]:
        """End the stream, and return the batch that says why."""
        if self._reason is not None:
            return ()
        self._reason = reason
        for track in self._tracks.values():
            track.drop()
        first = min(self._tracks, default=None)
        place, position = (first, self._tracks[first].sent) if first else self._nowhere or (None, 0)
        return [] if place is None else [DeliveryBatch(place, position, (), reason)]

    @property
    def _size(self) -> int:
        return sum(track.size for track in self._tracks.values())

    @property
    def _left(self) -> int:
        """How far more may be sent ahead of what is committed."""
        return self._rules.max_uncommitted - self._ahead

    def _cut(self, places: Iterable[FeedPartition], now: float, found: list[DeliveryBatch]) -> None:
        """Send whole batches, and what a partition has that has been silent for too long.

        The next batch is that of the partition with the least that is not committed: one with many events, or a slow
        consumer, leaves room in the window for the others.
        """
        tracks = [(place, track) for place in places if (track := self._tracks[place]).withdrawn_at is None]
        turns = [(track.ahead, at) for at, (_, track) in enumerate(tracks) if track.waiting]
        heapify(turns)
        if len(turns) == 1:
            self._send_many(*tracks[turns[0][1]], now, found)
        while turns:
            place, track = tracks[turns[0][1]]
            if self._send_whole(place, track, now, found):
                heapreplace(turns, (track.ahead, turns[0][1]))
            else:
                heappop(turns)
        for place, track in tracks:
            if now >= track.sent_at + self._rules.flush_timeout:
                self._send(place, track, self._batch_size(track), now, found)

    def _send_many(self, place: FeedPartition, track: PartitionQueue, now: float, found: list[DeliveryBatch]) -> None:
        """Send what whole batches of a partition may be sent one after another, where nobody need look at each."""
        rules = self._rules
        if rules.stream_limit or rules.timespan_seconds or track.single_until > track.committed:
            return
        before = track.ahead
        batches = track.take_batches(rules.batch_limit, self._left)
        if not batches:
            return
        self._note_sent(track, before, rules.batch_limit * len(batches), now)
        found += [DeliveryBatch(place, each.position, each.events, offsets=each.offsets) for each in batches]
        found[-len(batches)] = found[-len(batches)]._replace(debug=self._debug)
        self._debug = None

    def _send_whole(self, place: FeedPartition, track: PartitionQueue, now: float, found: list[DeliveryBatch]) -> bool:
        """Send a whole batch of a partition, if it has one that may be sent; tell whether."""
        size = self._batch_size(track)
        if not 0 < size <= track.waiting:
            return False
        before = track.sent
        self._send(place, track, size, now, found)
        return track.sent != before

    def _batch_size(self, track: PartitionQueue) -> int:
        """Return how many events make the next batch; 0: none may be sent."""
        if track.is_suspected:
            return 0
        if track.single_until > track.sent and any(each.is_suspected for each in self._tracks.values()):
            return 0  # Were two sent at the same time, each alone in its partition, both would have failed for one.
        limit = 1 if track.single_until > track.sent else self._rules.batch_limit
        more = self._rules.stream_limit - self._sent if self._rules.stream_limit else limit
        spanned = track.spanned(self._rules.timespan_seconds)
        return max(0, min(limit, self._left, more, spanned))

    def _send(
        self,
        place: FeedPartition,
        track: PartitionQueue,
        size: int,
        now: float,
        found: list[DeliveryBatch],
        *,
        says: bool = True,
    ) -> None:
        """Send up to *size* events of a partition, as far as the window goes; or, if it *says* so, that it has none."""
        more = self._rules.stream_limit - self._sent if self._rules.stream_limit else track.waiting
        before = track.ahead
        taken = track.take(min(size, more), self._left)
        if not taken.events and not says:
            return
        self._note_sent(track, before, len(taken.events), now)
        found.append(DeliveryBatch(place, track.sent, taken.events, self._debug, offsets=taken.offsets))
        self._debug = None

    def _note_sent(self, track: PartitionQueue, before: int, events: int, now: float) -> None:
        """Take note of what was sent of a partition that was *before* ahead; without events, that it has none."""
        if events and not self._ahead and not self._resent:
            self._waits_since = now
        self._ahead += track.ahead - before
        self._sent += events
        is_held_up = track.waiting > 0
        track.keep_alives = 0 if events or is_held_up else track.keep_alives + 1
        track.sent_at = now

    def _heaviest(self) -> FeedPartition | None:
        """Return the partition with the most that may be sent."""
        able = [place for place, track in self._tracks.items() if track.waiting and self._batch_size(track) > 0]
        return max(able, key=lambda place: self._tracks[place].size, default=None)

    def _ends(self) -> list[float]:
        """Return when the stream ends, for each of the reasons that a time can be."""
        rules = self._rules
        found = [self._began + rules.timeout]
        if self._ahead or self._resent:
            found.append(self._waits_since + rules.commit_timeout)
        if self._alone_since is not None:
            found.append(self._alone_since + IDLE_TIMES * rules.commit_timeout)
        found += [
            track.withdrawn_at + rules.commit_timeout
            for track in list(self._tracks.values())  # It is asked by who sends, while a step lets go of some.
            if track.withdrawn_at is not None and track.ahead
        ]
        return found

    def _over(self, now: float) -> str | None:
        rules = self._rules
        if now >= self._began + rules.timeout:
            return "Stream timeout reached"
        if (self._ahead or self._resent) and now >= self._waits_since + rules.commit_timeout:
            return COMMIT_TIMEOUT
        if rules.stream_limit and self._sent >= rules.stream_limit and not self._ahead:
            return f"Stream limit in events reached: {self._sent}"
        silent = min((track.keep_alives for track in self._tracks.values()), default=0)
        if 0 < rules.keep_alive_limit <= silent:
            return f"Keep-alive limit reached: {rules.keep_alive_limit}"
        if self._alone_since is not None and now >= self._alone_since + IDLE_TIMES * rules.commit_timeout:
            return "No partition was free for this stream"
        if self.overdue(now):
            return "A partition was reassigned and not committed in time"
        return None
