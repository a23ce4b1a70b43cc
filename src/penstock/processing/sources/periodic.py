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
        notify: Is called by that thread when there is something to take.
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
        """How many items were handed on."""
        self._pulling = Pulling(self._pull, notify)

    @property
    def next_index(self) -> int:
        """The index of the item that would be handed on next."""
        return self._first + self._count

    def goes_on_at(self, position: Position) -> bool:
        """Tell whether *position* is where it has come to; else somebody has begun anew."""
        if isinstance(position, Within):
            return (position.first, position.count) == (self._first, self._count)
        return self._count == 0 and position == self._before

    def ask(self) -> bool:
        """Have the next items crawled, unless that goes on already; tell whether there is something to take."""
        return self._pulling.ask()

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
Crawl: TypeAlias = Callable[[], Iterable[Crawled]]
_CRAWLS: Final = "a function, or functions by tranche: {'customers': crawl_customers, 'orders': crawl_orders}"
_INTERVALS: Final = "1 second or more, for all tranches or for each by its name: {'customers': 60, 'orders': 3600}"


class PeriodicTranche:
    """A tranche that is traversed again and again: the traversal that is under way, and when the next one is due.

    Args:
        name: What it is called.
        crawl: Gives the items of a traversal.
        interval: Seconds from the start of one traversal to that of the next.
        clock: The time of day, in seconds since 1970.
        elapsed: Seconds that never go back.
        notify: Is called by a thread of a traversal's when there is something to take.
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
        """What is under way."""
        self._least = 0
        """No item may have an index below: those were given already."""
        self._resting_at: Position | None = None
        """Where nothing is due."""
        self._is_over = False
        self._turn = threading.Lock()
        """Whoever has it begins with a traversal, or closes."""

    def under_way(self, position: Position) -> Traversal | None:
        """Return the traversal that goes on at *position*, or one that is due; None: none is."""
        traversal = self._traversal
        if traversal is not None and not traversal.goes_on_at(position):
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
        """Return what comes next of the traversal that is under way; see `Traversal.take`."""
        try:
            batch = traversal.take(timeout)
        except Exception:
            self._end(traversal)
            raise
        if batch is not None and batch.is_tail:
            self._end(traversal)
        return batch

    def behind(self, position: Position | None) -> int | None:
        """Return 0 from the end of a traversal until the next is due; else nobody can tell."""
        return 0 if position is not None and position == self._resting_at else None

    def close(self) -> None:
        """End; who waits is woken."""
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
    """What *crawl* comes upon: a traversal after the other, of each tranche by its own interval.

    An item's index is the time at which its traversal has started, in nanoseconds since 1970, and its number in the
    traversal: it is larger than all those of traversals before, also of those that another process has begun, as far as
    the clock tells. So whoever handles a stream again knows what is newer, but no index follows the one before. A
    position is the index behind a traversal; it moves when all of that is handled. A traversal that was interrupted, in
    which *crawl* has failed, or that is read from its beginning once more, begins anew with larger indices.

    Several tranches are traversed beside each other, and can be shared out among processors by leases. A stream belongs
    to one of them.

    Args:
        crawl: Gives the items, each a tuple: the stream, its data (JSON, or what becomes JSON), and its kind if that is
            to be another than `event`. It is called for each traversal, and iterated over in a thread of the source's.
            Or several such functions by the names of their tranches.
        interval: Seconds from the start of one traversal to that of the next; or these by the names of the tranches.
        tranche: What the tranche is called, where there is one.
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
        """Set when there may be something to take."""
        self._error: Exception | None = None
        """What the next call of `read` raises."""
        self._tranches = {
            name: PeriodicTranche(name, each, seconds, clock=clock, elapsed=elapsed, notify=self._come.set)
            for name, (each, seconds) in _by_tranche(crawl, interval, tranche).items()
        }
        self._closed = threading.Event()

    def tranches(self) -> Collection[str]:
        """Return those that there are."""
        return [*self._tranches]

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - It is the same of all.
        """Return the position before the first traversal."""
        return 0

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return what comes next of the traversals that are under way or due.

        The last batch of each moves its tranche's position. Whoever wants what was handed on already, from the position
        that is kept, is given another traversal.
        """
        self._check()
        self._come.clear()
        waiting = {
            name: traversal
            for name, tranche in self._tranches.items()
            if name in wants and (traversal := tranche.under_way(wants[name].position)) is not None
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
            except Exception as error:  # noqa: BLE001 - It is raised, now or by the next call.
                self._error = error
                break
            found += [] if batch is None else [batch]
        if not found:
            self._check()
        return found

    def reread(self, tranche: str, want: ReadRequest) -> Batch:  # noqa: ARG002 - It never can.
        """Refuse.

        Raises:
            EventsLost: what a traversal has come upon may not be there any more.
        """
        raise EventsLost.of("not-replayable", source=type(self).__name__)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return 0 of a tranche from the end of a traversal until the next is due; else nobody can tell."""
        return {name: tranche.behind(positions.get(name)) for name, tranche in self._tranches.items()}

    def close(self) -> None:
        """End; who is reading is woken. What *crawl* is busy with is not waited for."""
        self._closed.set()
        for tranche in self._tranches.values():
            tranche.close()
        self._come.set()

    def _check(self) -> None:
        """Raise what a traversal has failed with: what others had come upon comes first."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error


def _by_tranche(crawl: Any, interval: Any, tranche: str) -> dict[str, tuple[Crawl, float]]:
    """Return, by tranche, what is crawled at which intervals."""
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
