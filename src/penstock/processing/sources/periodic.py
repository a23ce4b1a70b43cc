"""What has no order in which it could be resumed, gone through again and again."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.client.closing import Closing
from penstock.core.document import document
from penstock.core.timetable import TRAVERSED_MAX, Timetable
from penstock.errors import BadParameter, NotReplayable
from penstock.processing.engine.item import Batch, Position
from penstock.processing.sources.pulling import Pulling
from penstock.processing.sources.source import Want
from penstock.processing.stream_event import StreamEvent

Crawled: TypeAlias = tuple[str, Any] | tuple[str, Any, str]
"""A stream, what there is of it, and its kind, which is `event` unless it is said."""
CHUNK: Final = 1_000
"""So many items are handed on at once; …"""
CHUNK_S: Final = 0.5
"""… fewer where they take longer than that."""


class _Chunk(NamedTuple):
    items: Sequence[Crawled]
    is_last: bool


class PeriodicSource(Closing):
    """What *crawl* comes upon, as one tranche: a traversal after the other.

    An item's index is the second in which its traversal has started, since 1970, times 1 000 000 000, and its number in
    the traversal: it is larger than all those of traversals before. So whoever handles a stream again knows what is
    newer, but no index follows the one before. A position is the start of a traversal and how many items it had; it
    moves when all of a traversal is handled. One that was interrupted, or in which *crawl* has failed, begins anew.

    Args:
        crawl: Gives the items, each a tuple: the stream, its data (JSON, or what becomes JSON), and its kind if that is
            to be another than `event`. It is called for each traversal, and iterated over in a thread of the source's.
        every: How much time is to pass from the start of one traversal to that of the next: seconds, or a `timedelta`.
        tranche: What the tranche is called.
        clock: The time of day, in seconds since 1970.
        elapsed: Seconds that never go back.

    Raises:
        BadParameter: *every* is shorter than a second; (`read`) a traversal has too many items, or one is no tuple.
        Exception: (`read`) what *crawl* has raised.
    """

    is_dense = False
    is_by_stream = False
    is_replayable = False

    def __init__(
        self,
        crawl: Callable[[], Iterable[Crawled]],
        every: float | timedelta,
        *,
        tranche: str = "0",
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        seconds = every.total_seconds() if isinstance(every, timedelta) else every
        if seconds < 1:
            raise BadParameter(parameter="every", value=every, allowed="a second or more")
        self._crawl = crawl
        self._tranche = tranche
        self._elapsed = elapsed
        self._timetable = Timetable(seconds, clock=clock, elapsed=elapsed)
        self._pulling = Pulling(self._pull)
        self._items: Iterator[Crawled] | None = None
        self._start: int | None = None
        """When the traversal has started that is under way; None: none is."""
        self._least = 0
        """No traversal may start before: its positions were given already."""
        self._count = 0
        """How many items of the traversal were handed on."""
        self._resting_at: Position | None = None
        """Where nothing is due."""
        self._closed = threading.Event()

    def tranches(self) -> Collection[str]:
        """Return the one that there is."""
        return [self._tranche]

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:  # noqa: ARG002 - There is one.
        """Return the position before the first traversal."""
        return 0

    def read(self, wants: Mapping[str, Want], wait_s: float) -> Sequence[Batch]:
        """Return what comes next of the traversal that is under way or due; its last batch moves the position."""
        if self._tranche not in wants:
            return []
        at = int(wants[self._tranche].position)
        if not self._is_under_way(at):
            self._resting_at = at
            self._closed.wait(wait_s)
            return []
        try:
            chunk = self._pulling.take(wait_s)
            return [] if chunk is None else [self._batch(chunk, at)]
        except Exception:
            self._end()
            raise

    def reread(self, tranche: str, want: Want) -> Batch:  # noqa: ARG002 - It never can.
        """Refuse.

        Raises:
            NotReplayable: what a traversal has come upon may not be there any more.
        """
        raise NotReplayable(source=type(self).__name__)

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return 0 from the end of a traversal until the next is due; else nobody can tell."""
        at = positions.get(self._tranche)
        return {self._tranche: 0 if at is not None and at == self._resting_at else None}

    def close(self) -> None:
        """End; who is reading is woken. What *crawl* is busy with is not waited for."""
        self._closed.set()
        self._pulling.close()

    def _is_under_way(self, at: int) -> bool:
        """Tell whether a traversal is under way, and begin with one that is due."""
        if self._start is None:
            due = self._timetable.next_start(at // TRAVERSED_MAX if at else None)
            if due is None or due == self._least - 1:  # One that has failed has had the positions of this second.
                return False
            self._start = max(due, self._least)
            self._resting_at = None
        return True

    def _batch(self, chunk: _Chunk, at: int) -> Batch:
        assert self._start is not None
        first = self._start * TRAVERSED_MAX + self._count
        events = [self._event(item, index) for index, item in enumerate(chunk.items, first)]
        self._count += len(events)
        if self._count > TRAVERSED_MAX:
            raise BadParameter(parameter="crawl", value=self._count, allowed=f"up to {TRAVERSED_MAX} items")
        if not chunk.is_last:
            return Batch(self._tranche, at, events)
        self._end()
        return Batch(self._tranche, first + len(events), events, is_tail=True)

    def _event(self, item: Crawled, index: int) -> StreamEvent:
        given: object = item
        if not (isinstance(given, tuple) and len(given) in (2, 3) and isinstance(given[0], str)):
            raise BadParameter(parameter="crawl", value=given, allowed="tuples (stream, data) or (stream, data, kind)")
        kind = item[2] if len(item) == 3 else "event"
        return StreamEvent(item[0], index, kind, document(item[1]), tranche=self._tranche)

    def _end(self) -> None:
        assert self._start is not None
        self._least = self._start + 1
        self._start, self._count, self._items = None, 0, None

    def _pull(self) -> _Chunk:
        if self._items is None:
            self._items = iter(self._crawl())
        found, until = [], self._elapsed() + CHUNK_S
        for item in self._items:
            found.append(item)
            if len(found) == CHUNK or self._elapsed() >= until:
                return _Chunk(found, is_last=False)
        return _Chunk(found, is_last=True)
