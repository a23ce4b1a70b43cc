"""One pass over what is gone through periodically."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.core.events.encoding import encode_event
from penstock.errors import BadParameter
from penstock.processing.engine.item import Batch, Position
from penstock.processing.sources.pulling import Pulling
from penstock.processing.stream_event import StreamEvent
from penstock.processing.timetable import TRAVERSED_MAX

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
