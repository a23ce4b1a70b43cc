"""What is known of one partition that is sent to a stream: what waits, how far it is sent, how far it is committed."""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple, overload

EVENT_OVERHEAD: Final = 48
"""What an event takes in memory beside its bytes: a stream of empty objects is bounded, too."""


class Joined(Sequence[bytes]):
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


class Read(NamedTuple):
    """What was read of a partition."""

    events: Sequence[bytes]
    offsets: Sequence[int]
    position: int
    """The offset wanted next after all of it; what lies between was left out, and is not wanted again."""
    received: Sequence[float] = ()
    """When each of them was received, in seconds of its own clock; needed where batches are cut by it."""


class Taken(NamedTuple):
    """What is taken out at once."""

    events: Sequence[bytes]
    position: int
    """The offset wanted next after it."""
    offsets: Sequence[int] = ()
    """Those of the events, where these do not follow each other up to right before *position*."""


class Track:
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

    def add(self, read: Read) -> None:
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

    def take(self, count: int, window: int) -> Taken:
        """Return up to *count* events that lie within *window* offsets after what was sent, and count them as sent."""
        if not self.ahead and self.waiting:
            self.committed = self.sent = self._pieces[0].offset  # What was left out before it takes no room.
        count = min(count, self._below(self.sent + window))
        if count <= 0:
            return Taken((), self.sent)
        # What was left out behind the last of them goes with it, as far as the window reaches.
        is_all = count == self.waiting
        first = self._pieces[0].offset
        events, offsets = self._cut(count)
        self.sent = min(self.read, self.sent + window) if is_all else offsets[-1][-1] + 1
        return Taken(events, self.sent, () if first + count == self.sent else [*chain.from_iterable(offsets)])

    def take_batches(self, size: int, window: int) -> Sequence[Taken]:
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
        found = [Taken(events[at : at + size], first + at + size) for at in range(0, count, size)]
        if self.sent > found[-1].position:
            found[-1] = Taken(found[-1].events, self.sent, range(first + count - size, first + count))
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

    def __init__(self, read: Read) -> None:
        self.events = read.events
        self.offsets = read.offsets
        self.received = read.received
        self.first = 0
        """What is before it does not wait."""
        self.left = len(read.events)
        size = len(read.events.data) if isinstance(read.events, Joined) else sum(map(len, read.events))
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
        if isinstance(self.events, Joined):
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
