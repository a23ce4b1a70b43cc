"""What has no order in which it could be resumed, gone through again and again."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from penstock.errors import EventsLost
from penstock.processing.engine.item import Batch, Position
from penstock.processing.parameters import check_function, check_kind, check_number
from penstock.processing.sources.closable import Closable
from penstock.processing.sources.source import Want
from penstock.processing.sources.traversal import Crawled, Traversal
from penstock.processing.timetable import TRAVERSED_MAX, Timetable

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

    def read(self, wants: Mapping[str, Want], timeout: float) -> Sequence[Batch]:
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

    def reread(self, tranche: str, want: Want) -> Batch:  # noqa: ARG002 - It never can.
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
