"""What has no order in which it could be resumed, gone through again and again."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.core.events.encoding import encode_event
from penstock.errors import BadParameter, EventsLost
from penstock.processing.engine.item import Batch, Position
from penstock.processing.parameters import check_function, check_kind, check_number
from penstock.processing.sources.pulling import Pulling
from penstock.processing.sources.source import Closable, ReadRequest
from penstock.processing.stream_event import StreamEvent

TRAVERSED_MAX: Final = 1_000_000_000
"""What a traversal comes upon at most: more would reach into the positions of the next second."""


class Timetable:
    """The starts of the traversals of one thing, each in seconds since 1970, and larger than the one before.

    While it is traversed, an interval is measured by a clock that does not jump. How long ago a start was that came
    before, only the time of day can tell. Where that lies before the last start, the clock has gone back, nobody can
    say how much time has passed, and the next traversal is due.

    Args:
        interval: The seconds from one start to the next.
        clock: The time of day, in seconds since 1970.
        elapsed: Seconds that never go back.
    """

    def __init__(
        self,
        interval: float,
        *,
        clock: Callable[[], float],
        elapsed: Callable[[], float],
    ) -> None:
        self._interval = interval
        self._clock = clock
        self._elapsed = elapsed
        self._last: int | None = None
        self._due_at = 0.0
        """By the clock that does not jump: when the traversal after the last one is due."""

    def next_start(self, last: int | None) -> int | None:
        """Return the start of the traversal after the one that has started at *last*; None: it is not due yet.

        Without a *last* one, the first is due.
        """
        now = int(self._clock())
        if last != self._last:
            left = 0 if last is None or now < last else max(0, last + self._interval - now)
            self._last, self._due_at = last, self._elapsed() + left
        if last is not None and self._elapsed() < self._due_at:
            return None
        self._last = now if last is None else max(now, last + 1)
        self._due_at = self._elapsed() + self._interval
        return self._last


Crawled: TypeAlias = tuple[str, Any] | tuple[str, Any, str]
"""A stream, what there is of it, and its kind, which is `event` unless it is said."""
_ITEMS: Final = "tuples (stream, data) or (stream, data, kind)"
CHUNK: Final = 1_000
"""So many items are handed on at once; …"""
CHUNK_SECONDS: Final = 0.5
"""… fewer where they take longer than that."""


class Within(int):
    """A position in the middle of a traversal: it is kept as that before it, and read on from by who goes on alone.

    Whoever begins anew has what was kept, or another's, and is given a traversal from its first item.
    """

    count: int
    """How many items are before it."""
    first: int
    """The index of the first of them."""

    @classmethod
    def of(cls, before: int, first: int, count: int) -> "Within":
        """Return the position behind so many items of a traversal that was begun with at *before*."""
        found = cls(before)
        found.first, found.count = first, count
        return found


class _Chunk(NamedTuple):
    items: Sequence[Crawled]
    is_last: bool


class Traversal:
    """What one call of *crawl* comes upon, in batches, iterated over in a thread of its own until `close`.

    Args:
        crawl: Gives the items.
        tranche: What the batches are of.
        before: The position at which it is begun with; its last batch alone moves that.
        first: The index of its first item.
        elapsed: Seconds that never go back.
    """

    def __init__(
        self,
        crawl: Callable[[], Iterable[Crawled]],
        tranche: str,
        *,
        before: int,
        first: int,
        elapsed: Callable[[], float],
    ) -> None:
        self._crawl = crawl
        self._tranche = tranche
        self._before = before
        self._first = first
        self._elapsed = elapsed
        self._items: Iterator[Crawled] | None = None
        self._count = 0
        """How many items were handed on."""
        self._pulling = Pulling(self._pull)

    @property
    def next_index(self) -> int:
        """The index of the item that would be handed on next."""
        return self._first + self._count

    def goes_on_at(self, position: Position) -> bool:
        """Tell whether *position* is where it has come to; else somebody has begun anew."""
        if isinstance(position, Within):
            return (position.first, position.count) == (self._first, self._count)
        return self._count == 0 and position == self._before

    def take(self, timeout: float) -> Batch | None:
        """Return what comes next; None: it has not come within so many seconds, or all is closed.

        Raises:
            BadParameter: there are too many items, or one is no tuple.
            Exception: what *crawl* has raised.
        """
        chunk = self._pulling.take(timeout)
        return None if chunk is None else self._batch(chunk)

    def close(self) -> None:
        """End; who waits is woken. What *crawl* is busy with is not waited for."""
        self._pulling.close()

    def _batch(self, chunk: _Chunk) -> Batch:
        events = [self._event(item, index) for index, item in enumerate(chunk.items, self.next_index)]
        self._count += len(events)
        if self._count > TRAVERSED_MAX:
            raise BadParameter(parameter="crawl", value=self._count, allowed=f"up to {TRAVERSED_MAX} items")
        end = self.next_index if chunk.is_last else Within.of(self._before, self._first, self._count)
        return Batch(self._tranche, end, events, is_tail=chunk.is_last)

    def _event(self, item: Crawled, index: int) -> StreamEvent:
        given: object = item
        if not (isinstance(given, tuple) and len(given) in (2, 3) and isinstance(given[0], str)):
            raise BadParameter(parameter="crawl", value=given, allowed=_ITEMS)
        kind = item[2] if len(item) == 3 else "event"
        return StreamEvent(item[0], index, kind, encode_event(item[1]), tranche=self._tranche)

    def _pull(self) -> _Chunk:
        if self._items is None:
            crawled: object = self._crawl()
            if not isinstance(crawled, Iterable):
                allowed = f"a function that returns an iterable of {_ITEMS}"
                raise BadParameter(parameter="crawl", value=f"{type(crawled).__name__}, returned", allowed=allowed)
            self._items = iter(crawled)
        found, until = [], self._elapsed() + CHUNK_SECONDS
        for item in self._items:
            found.append(item)
            if len(found) == CHUNK or self._elapsed() >= until:
                return _Chunk(found, is_last=False)
        return _Chunk(found, is_last=True)


INTERVAL_MAX: Final = 100 * 366 * 86_400.0
"""A hundred years."""


class PeriodicSource(Closable):
    """What *crawl* comes upon, as one tranche: a traversal after the other.

    An item's index is the time at which its traversal has started, in nanoseconds since 1970, and its number in the
    traversal: it is larger than all those of traversals before, also of those that another process has begun, as far as
    the clock tells. So whoever handles a stream again knows what is newer, but no index follows the one before. A
    position is the index behind a traversal; it moves when all of that is handled. A traversal that was interrupted, in
    which *crawl* has failed, or that is read from its beginning once more, begins anew with larger indices.

    Args:
        crawl: Gives the items, each a tuple: the stream, its data (JSON, or what becomes JSON), and its kind if that is
            to be another than `event`. It is called for each traversal, and iterated over in a thread of the source's.
        interval: Seconds from the start of one traversal to that of the next.
        tranche: What the tranche is called.
        clock: The time of day, in seconds since 1970.
        elapsed: Seconds that never go back.

    Raises:
        BadParameter: one of them is none of these; (`read`) a traversal has too many items, or one is no tuple.
        Exception: (`read`) what *crawl* has raised.
    """

    is_dense = False
    is_by_stream = False
    is_replayable = False

    def __init__(
        self,
        crawl: Callable[[], Iterable[Crawled]],
        interval: float,
        *,
        tranche: str = "0",
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        check_function("crawl", crawl)
        check_number("interval", interval, least=1, most=INTERVAL_MAX, allowed="1 second or more")
        check_kind("tranche", tranche, str, "a text")
        check_function("clock", clock)
        check_function("elapsed", elapsed)
        self._crawl = crawl
        self._tranche = tranche
        self._clock = clock
        self._elapsed = elapsed
        self._timetable = Timetable(interval, clock=clock, elapsed=elapsed)
        self._traversal: Traversal | None = None
        """What is under way."""
        self._least = 0
        """No item may have an index below: those were given already."""
        self._resting_at: Position | None = None
        """Where nothing is due."""
        self._closed = threading.Event()
        self._turn = threading.Lock()
        """Whoever has it begins with a traversal, or closes."""

    def tranches(self) -> Collection[str]:
        """Return the one that there is."""
        return [self._tranche]

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - There is one.
        """Return the position before the first traversal."""
        return 0

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return what comes next of the traversal that is under way or due; its last batch moves the position.

        Whoever wants what was handed on already, from the position that is kept, is given another traversal.
        """
        if self._tranche not in wants:
            return []
        position = wants[self._tranche].position
        traversal = self._under_way(position)
        if traversal is None:
            self._resting_at = position
            self._closed.wait(timeout)
            return []
        try:
            batch = traversal.take(timeout)
        except Exception:
            self._end(traversal)
            raise
        if batch is not None and batch.is_tail:
            self._end(traversal)
        return [] if batch is None else [batch]

    def reread(self, tranche: str, want: ReadRequest) -> Batch:  # noqa: ARG002 - It never can.
        """Refuse.

        Raises:
            EventsLost: what a traversal has come upon may not be there any more.
        """
        raise EventsLost.of("not-replayable", source=type(self).__name__)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return 0 from the end of a traversal until the next is due; else nobody can tell."""
        at = positions.get(self._tranche)
        return {self._tranche: 0 if at is not None and at == self._resting_at else None}

    def close(self) -> None:
        """End; who is reading is woken. What *crawl* is busy with is not waited for."""
        self._closed.set()
        with self._turn:
            if self._traversal is not None:
                self._traversal.close()

    def _under_way(self, position: Position) -> Traversal | None:
        """Return the traversal that goes on at *position*, or one that is due; None: none is."""
        traversal = self._traversal
        if traversal is not None and not traversal.goes_on_at(position):
            self._end(traversal)
        if self._traversal is None:
            at = int(position)
            due = self._timetable.next_start(at // TRAVERSED_MAX if at else None)
            if due is not None:
                now = int(self._clock() * TRAVERSED_MAX)
                self._begin(at, max(due * TRAVERSED_MAX, now, at, self._least))
        return self._traversal

    def _begin(self, at: int, first: int) -> None:
        with self._turn:
            if not self._closed.is_set():
                self._resting_at = None
                self._traversal = Traversal(self._crawl, self._tranche, before=at, first=first, elapsed=self._elapsed)

    def _end(self, traversal: Traversal) -> None:
        with self._turn:
            self._least, self._traversal = traversal.next_index, None
            traversal.close()
