"""A source for data without an order to resume in: it is traversed at every interval."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.core.events.encoding import encode_event
from penstock.errors import BadParameter, EventsLost
from penstock.processing.engine.tranche import Batch, Position
from penstock.processing.parameters import check_function, check_kind, check_number
from penstock.processing.sources.source import Closable, Puller, ReadRequest
from penstock.processing.stream_event import StreamEvent

TRAVERSED_MAX: Final = 1_000_000_000
"""The maximum number of items of a traversal: more would overlap with positions of the next second."""


class Timetable:
    """The starts of one tranche's traversals, in increasing seconds since 1970.

    A monotonic clock measures the interval in one process. The time since a start in an earlier process is known from
    the time of day only. If that is before the last start, the clock was set back, and the next traversal is due.

    Args:
        interval: The seconds from one start to the next.
        clock: Returns the time of day, in seconds since 1970.
        elapsed: Returns seconds that never decrease.
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
        """The time at which the next traversal is due, by the monotonic clock."""

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
"""A stream, its data, and its kind, by default `event`."""
_ITEMS: Final = "tuples (stream, data) or (stream, data, kind)"
CHUNK: Final = 1_000
"""The maximum number of items of a batch; …"""
CHUNK_SECONDS: Final = 0.5
"""… fewer if crawling them takes longer than this number of seconds."""


class TraversalPosition(int):
    """A position within a traversal: it is stored as the position before, and only the same run continues from it.

    A run that starts from a stored position, or from that of another run, gets a traversal from its first item.
    """

    count: int
    """The number of items before it."""
    first: int
    """The index of the first of them."""

    @classmethod
    def make(cls, before: int, first: int, count: int) -> "TraversalPosition":
        """Return the position behind *count* items of a traversal that started at position *before*."""
        found = cls(before)
        found.first, found.count = first, count
        return found


class _Chunk(NamedTuple):
    items: Sequence[Crawled]
    is_last: bool


class Traversal:
    """The items of one call of *crawl*, in batches; a separate thread iterates over them until `close`.

    Args:
        crawl: Returns the items.
        tranche: The tranche of the batches.
        before: The position before the traversal; only its last batch moves the position.
        first: The index of its first item.
        elapsed: Returns seconds that never decrease.
        notify: Called by that thread when a batch is ready.
    """

    def __init__(
        self,
        crawl: Callable[[], Iterable[Crawled]],
        tranche: str,
        *,
        before: int,
        first: int,
        elapsed: Callable[[], float],
        notify: Callable[[], object],
    ) -> None:
        self._crawl = crawl
        self._tranche = tranche
        self._before = before
        self._first = first
        self._elapsed = elapsed
        self._items: Iterator[Crawled] | None = None
        self._count = 0
        """The number of items returned."""
        self._puller = Puller(self._pull, notify)

    @property
    def next_index(self) -> int:
        """The index of the next item."""
        return self._first + self._count

    def continues_at(self, position: Position) -> bool:
        """Return whether the traversal continues at *position*; else the processor has restarted."""
        if isinstance(position, TraversalPosition):
            return (position.first, position.count) == (self._first, self._count)
        return self._count == 0 and position == self._before

    def ask(self) -> bool:
        """Start to crawl the next items, unless that is running; return whether a batch is ready."""
        return self._puller.ask()

    def take(self, timeout: float) -> Batch | None:
        """Return the next batch; None: there was none within *timeout* seconds, or the traversal is closed.

        Raises:
            BadParameter: there are too many items, or one is no tuple.
            Exception: an exception of *crawl*.
        """
        chunk = self._puller.take(timeout)
        return None if chunk is None else self._make_batch(chunk)

    def close(self) -> None:
        """End, and wake the waiting thread; a running *crawl* is not waited for."""
        self._puller.close()

    def _make_batch(self, chunk: _Chunk) -> Batch:
        events = [self._make_event(item, index) for index, item in enumerate(chunk.items, self.next_index)]
        self._count += len(events)
        if self._count > TRAVERSED_MAX:
            raise BadParameter(parameter="crawl", value=self._count, allowed=f"up to {TRAVERSED_MAX} items")
        end = self.next_index if chunk.is_last else TraversalPosition.make(self._before, self._first, self._count)
        return Batch(self._tranche, end, events, is_tail=chunk.is_last)

    def _make_event(self, item: Crawled, index: int) -> StreamEvent:
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
Crawl: TypeAlias = Callable[[], Iterable[Crawled]]
_CRAWLS: Final = "a function, or functions by tranche: {'customers': crawl_customers, 'orders': crawl_orders}"
_INTERVALS: Final = "1 second or more, for all tranches or for each by its name: {'customers': 60, 'orders': 3600}"


class PeriodicTranche:
    """A tranche that is traversed at an interval: its running traversal, and the time of the next one.

    Args:
        name: The tranche's name.
        crawl: Returns the items of a traversal.
        interval: Seconds from the start of one traversal to that of the next.
        clock: Returns the time of day, in seconds since 1970.
        elapsed: Returns seconds that never decrease.
        notify: Called by a traversal's thread when a batch is ready.
    """

    def __init__(
        self,
        name: str,
        crawl: Crawl,
        interval: float,
        *,
        clock: Callable[[], float],
        elapsed: Callable[[], float],
        notify: Callable[[], object],
    ) -> None:
        self._name = name
        self._crawl = crawl
        self._clock = clock
        self._elapsed = elapsed
        self._notify = notify
        self._timetable = Timetable(interval, clock=clock, elapsed=elapsed)
        self._traversal: Traversal | None = None
        """The running traversal."""
        self._least = 0
        """The least index of further items: lower ones were used already."""
        self._resting_at: Position | None = None
        """The position at which no traversal is due."""
        self._is_over = False
        self._turn = threading.Lock()
        """Guards the start of a traversal, and closing."""

    def find_traversal(self, position: Position) -> Traversal | None:
        """Return the traversal that continues at *position*, or a due one; None: there is none."""
        traversal = self._traversal
        if traversal is not None and not traversal.continues_at(position):
            self._end(traversal)
        if self._traversal is None:
            at = int(position)
            due = self._timetable.next_start(at // TRAVERSED_MAX if at else None)
            if due is None:
                self._resting_at = position
            else:
                now = int(self._clock() * TRAVERSED_MAX)
                self._begin(at, max(due * TRAVERSED_MAX, now, at, self._least))
        return self._traversal

    def take(self, traversal: Traversal, timeout: float) -> Batch | None:
        """Return the next batch of the running traversal; see `Traversal.take`."""
        try:
            batch = traversal.take(timeout)
        except Exception:
            self._end(traversal)
            raise
        if batch is not None and batch.is_tail:
            self._end(traversal)
        return batch

    def behind(self, position: Position | None) -> int | None:
        """Return 0 from the end of a traversal until the next is due, else None: unknown."""
        return 0 if position is not None and position == self._resting_at else None

    def close(self) -> None:
        """End, and wake the waiting thread."""
        with self._turn:
            self._is_over = True
            if self._traversal is not None:
                self._traversal.close()

    def _begin(self, at: int, first: int) -> None:
        with self._turn:
            if not self._is_over:
                self._resting_at = None
                self._traversal = Traversal(
                    self._crawl, self._name, before=at, first=first, elapsed=self._elapsed, notify=self._notify
                )

    def _end(self, traversal: Traversal) -> None:
        with self._turn:
            self._least, self._traversal = traversal.next_index, None
            traversal.close()


class PeriodicSource(Closable):
    """The items of *crawl*, in repeated traversals; each tranche has its own interval.

    An item's index is the start of its traversal, in nanoseconds since 1970, plus its number in the traversal. It is
    larger than all indices of earlier traversals, also of other processes as far as clocks agree. So a handler can tell
    newer data of a stream, but indices have gaps. A position is the index behind a traversal; it moves when the whole
    traversal is handled. A traversal that was interrupted, whose *crawl* has failed, or that is read again from its
    beginning, restarts with larger indices.

    Several tranches are traversed concurrently, and processors can share them by leases. A stream belongs to one
    tranche.

    Args:
        crawl: Returns the items, each a tuple: the stream, its data (JSON or convertible to JSON), and its kind if
            it is not `event`. It is called for each traversal, and a thread of the source iterates over the result.
            Or several such functions by the names of their tranches.
        interval: Seconds from the start of one traversal to that of the next; or these by the names of the tranches.
        tranche: The tranche's name, if there is one.
        clock: Returns the time of day, in seconds since 1970.
        elapsed: Returns seconds that never decrease.

    Raises:
        BadParameter: an argument is invalid; (`read`) a traversal has too many items, or one is no tuple.
        Exception: (`read`) an exception of *crawl*.
    """

    is_dense = False
    is_by_stream = False
    is_replayable = False

    def __init__(
        self,
        crawl: Crawl | Mapping[str, Crawl],
        interval: float | Mapping[str, float],
        *,
        tranche: str = "0",
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        check_kind("tranche", tranche, str, "a text")
        check_function("clock", clock)
        check_function("elapsed", elapsed)
        self._come = threading.Event()
        """Set when a batch may be ready."""
        self._error: Exception | None = None
        """The exception that the next `read` raises."""
        self._tranches = {
            name: PeriodicTranche(name, each, seconds, clock=clock, elapsed=elapsed, notify=self._come.set)
            for name, (each, seconds) in _split_by_tranche(crawl, interval, tranche).items()
        }
        self._closed = threading.Event()

    def tranches(self) -> Collection[str]:
        """Return the tranches."""
        return [*self._tranches]

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - The same for all.
        """Return the position before the first traversal."""
        return 0

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the next batches of running and due traversals.

        The last batch of each moves its tranche's position. A request from the stored position for items that were
        returned already gets another traversal.
        """
        self._raise_failure()
        self._come.clear()
        waiting = {
            name: traversal
            for name, tranche in self._tranches.items()
            if name in wants and (traversal := tranche.find_traversal(wants[name].position)) is not None
        }
        if not waiting:
            self._closed.wait(timeout)
            return []
        has_come = [traversal.ask() for traversal in waiting.values()]
        if timeout and not any(has_come):
            self._come.wait(timeout)
        found: list[Batch] = []
        for name, traversal in waiting.items():
            if timeout and not traversal.ask():
                continue
            try:
                batch = self._tranches[name].take(traversal, timeout)
            except Exception as error:  # noqa: BLE001 - Raised now or by the next call.
                self._error = error
                break
            found += [] if batch is None else [batch]
        if not found:
            self._raise_failure()
        return found

    def reread(self, tranche: str, want: ReadRequest) -> Batch:  # noqa: ARG002 - Never possible.
        """Raise EventsLost.

        Raises:
            EventsLost: the items of a traversal may no longer exist.
        """
        raise EventsLost.of("not-replayable", source=type(self).__name__)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return 0 for a tranche from the end of a traversal until the next is due, else None: unknown."""
        return {name: tranche.behind(positions.get(name)) for name, tranche in self._tranches.items()}

    def close(self) -> None:
        """End, and wake the reading thread; a running *crawl* is not waited for."""
        self._closed.set()
        for tranche in self._tranches.values():
            tranche.close()
        self._come.set()

    def _raise_failure(self) -> None:
        """Raise the exception of a failed traversal; items of other traversals come first."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error


def _split_by_tranche(crawl: Any, interval: Any, tranche: str) -> dict[str, tuple[Crawl, float]]:
    """Return the function and the interval of each tranche."""
    if not isinstance(crawl, Mapping):
        check_function("crawl", crawl)
        if isinstance(interval, Mapping):
            raise BadParameter(parameter="interval", value=dict(interval), allowed="seconds: there is one tranche")
        crawl = {tranche: crawl}
    elif not crawl:
        raise BadParameter(parameter="crawl", value=crawl, allowed=_CRAWLS)
    for name, each in crawl.items():
        check_kind("crawl", name, str, _CRAWLS)
        check_function("crawl", each)
    intervals = dict(interval) if isinstance(interval, Mapping) else dict.fromkeys(crawl, interval)
    if intervals.keys() != crawl.keys():
        raise BadParameter(parameter="interval", value=intervals, allowed=f"one for each of {', '.join(crawl)}")
    for seconds in intervals.values():
        check_number("interval", seconds, least=1, most=INTERVAL_MAX, allowed=_INTERVALS)
    return {name: (each, intervals[name]) for name, each in crawl.items()}
