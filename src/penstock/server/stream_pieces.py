"""Makes what a stream sends: reads what there is, cuts it into batches, writes their lines; in worker threads."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from penstock.core.log.batching import Batching, Rules
from penstock.core.log.cursor import Cursor, View, feed_mark
from penstock.core.registry.event_type import Feed
from penstock.core.subscriptions.delivery import Read
from penstock.errors import Unavailable
from penstock.hub.hub import Hub
from penstock.hub.read import Reading, Track, Wanted
from penstock.hub.rows import next_events
from penstock.server.ahead import Piece
from penstock.server.gathering import Gathering
from penstock.wire.nakadi_stream import Lines

PAGE_EVENTS: Final = 1 << 15
"""So many events are read before all partitions are looked at again."""
STUCK_SECONDS: Final = 30.0
"""So long after its end a stream is left to a client that takes nothing."""


class StreamPieces:
    """The bytes of one stream, made piece by piece in worker threads, never two at once."""

    def __init__(
        self,
        hub: Hub,
        feed: Feed,
        positions: Mapping[int, int],
        *,
        allowed: Callable[[], None],
        rules: Rules,
        encoding: str | None,
        all_partitions: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin now, at the offsets wanted next of each partition.

        *allowed* is asked before every chunk, and raises once the reader may no longer read. *all_partitions* says that
        those which are added later are read too, from their beginning. *clock* gives seconds, and does not go back.
        """
        self._hub = hub
        self._name = feed.name
        self._allowed = allowed
        self._batching = Batching(rules, positions, clock())
        self._cursors = {partition: _cursor(feed, partition, position) for partition, position in positions.items()}
        self._all_partitions = all_partitions
        self._writer = Lines(feed.epoch)
        self._gathering = Gathering(encoding)
        self._clock = clock
        self._reading: Reading | None = None

    @property
    def over(self) -> bool:
        """Whether nothing follows what has been made."""
        return self._batching.closed or self._hub.watch().draining

    @property
    def unread(self) -> bool:
        """Whether there was more to read at the last look."""
        tracks = self._reading.tracks if self._reading else ()
        return any(track.offsets[each] < track.stops[each] for track in tracks for each in track.view.physical)

    @property
    def waits_at(self) -> dict[int, int]:
        """By partition id: the offsets whose arrival gives it something to read."""
        return self._reading.waits_at if self._reading else {}

    @property
    def idle_seconds(self) -> float:
        """For how long nothing is to be sent, unless there is something to read before."""
        return max(0.0, self._batching.due_at - self._clock())

    @property
    def patience(self) -> float:
        """For how many seconds a piece may take to be sent."""
        return max(0.0, self._batching.ends_at + STUCK_SECONDS - self._clock())

    def begin(self) -> Piece:
        """Look what there is to read and to send now, and return its first piece.

        Raises:
            Blocked: who reads may do so no more.
            CursorExpired, EventTypeNotFound: what would be read is gone.
            DatabaseUnavailable: it could not be read.
        """
        return self._gathering.begin(self._read())

    def next(self) -> Piece:
        """Return the next piece: see `Gathering.next`."""
        return self._gathering.next()

    def end(self) -> bytes:
        """Return what is sent last."""
        return self._gathering.end()

    def _read(self) -> Iterator[bytes]:
        """Read what there is, up to a page, and return the lines that are to be sent now."""
        if reading := self._look():
            for track in reading.tracks:
                while not self.over and (found := self._chunk(reading, track)):
                    events, offsets, position, _ = found
                    self._batching.add(track.view.partition, events[:], offsets, position, self._clock())
                    yield from self._due()
                self._cursors[track.view.partition] = track.cursor
        yield from self._due()

    def _look(self) -> Reading | None:
        """Return what there is to read; None where the database is away, and all that it had has been read."""
        try:
            self._allowed()
            self._reading = self._opened()
            if self._all_partitions and self._begin_added(self._reading.feed):
                self._reading = self._opened()
        except Unavailable:
            if self._reading is None or self.unread:
                raise
            return None  # Whoever wakes it next has found the database again.
        return self._reading

    def _opened(self) -> Reading:
        left = self._batching.left
        wanted = [Wanted(f"cursor of partition {each}", each, text) for each, text in self._cursors.items()]
        return self._hub.look(self._name, None, wanted, PAGE_EVENTS if left is None else min(left, PAGE_EVENTS))

    def _begin_added(self, feed: Feed) -> bool:
        """Begin with the partitions that *feed* has got meanwhile; tell whether there are any."""
        added = range(len(self._cursors), feed.partition_count)
        for partition in added:
            self._cursors[partition] = _cursor(feed, partition, 0)
            self._batching.begin(partition, 0, self._clock())
        return bool(added)

    def _chunk(self, reading: Reading, track: Track) -> Read | None:
        """Read a chunk; None when nothing is left."""
        self._allowed()
        return next_events(self._hub, reading, track)

    def _due(self) -> Iterator[bytes]:
        """Return the lines of what is to be sent now."""
        yield from self._writer.parts(self._gathering.counted(deque(self._batching.take(self._clock()))))


def _cursor(feed: Feed, partition: int, position: int) -> str:
    view = View(feed.partition_count, partition, feed.partition_count)
    return Cursor(feed_mark(feed.name), feed.epoch, view, (position,)).encode()
