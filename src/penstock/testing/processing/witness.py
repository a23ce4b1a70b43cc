"""Notes what a handler is called with, and holds it against what the source has."""

import inspect
import threading
from collections import defaultdict
from collections.abc import Collection, Coroutine, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.processing.engine.tranche import SourceItem
from penstock.processing.handlers import Handler, check_handler
from penstock.processing.outcomes import Outcome, to_outcome
from penstock.processing.parameters import check_texts, is_coroutine_function
from penstock.processing.sources.source import ReadRequest, Source, check_source

PAGE_EVENTS: Final = 10_000
Place: TypeAlias = tuple[str, str]
"""A stream, and the tranche whose indices its events have; where they have the stream's own, nothing."""


class _Done(NamedTuple):
    events: Sequence[Any]
    to: int


class Witness:
    """Passes calls to a handler and records them. Safe to use from many threads, and by one processor after another.

    Wrap it directly around the handler, inside other wrappers: `FaultyHandler(witness, …)`.

    Args:
        handler: The handler to call; None: every call is done at once.

    Raises:
        BadParameter: *handler* cannot be called as a handler.
    """

    def __init__(self, handler: Handler | None = None) -> None:
        if handler is not None:
            check_handler(handler)
        self.calls = 0
        """How many there were."""
        self.wrong: list[str] = []
        """Descriptions of forbidden calls that the processor has made."""
        self._handler: Handler = _nothing if handler is None else handler
        self.is_async = is_coroutine_function(handler)
        """True if calls are to be awaited."""
        self._done: list[_Done] = []
        self._active: set[str] = set()
        self._turn = threading.Lock()

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        """Call the handler, and note what it has done."""
        self._begin(stream, events)
        try:
            returned = self._handler(stream, events)
        except BaseException:
            self._end(stream)
            raise
        if inspect.iscoroutine(returned):
            return self._awaited(stream, events, returned)
        self._end(stream, events, returned)
        return returned

    @property
    def handled(self) -> dict[str, list[Any]]:
        """Return the handled events of each stream, in order, without repeats."""
        found: dict[str, list[Any]] = {}
        for (stream, _), events in self._fold(is_dense=False)[0].items():
            found.setdefault(stream, []).extend(events)
        return found

    def assert_handled_all(self, source: Source, *, parked: Collection[str] = ()) -> None:
        """Assert that all events of *source* were handled, in order in each stream, with one call at a time per stream.

        Repeats count once. The source must be replayable from its beginning, and must not change meanwhile.

        Args:
            source: The processor's source.
            parked: Streams that may be incomplete.

        Raises:
            AssertionError: an event was not handled, or not in order; the message names the streams and events.
            BadParameter: *source* is no source, or *parked* are no names.
        """
        check_source(source)
        check_texts("parked", parked)
        wrong = [*self.wrong]
        handled, skipped = self._fold(is_dense=source.is_dense)
        for place, items in _all_of(source).items():
            known, stream = {item.index for item in handled.pop(place, ())}, place[0]
            missing = [index for index in items if index not in known and index >= skipped.get(place, 0)]
            if missing and stream not in parked:
                wrong.append(f"{stream}: not handled in their turn are {_some(missing)}")
            if strange := sorted(known - items.keys()):
                wrong.append(f"{stream}: the source has no {_some(strange)}")
        wrong += [f"{stream}: the source has no such stream" for stream, _ in handled]
        if wrong:
            raise AssertionError("\n".join(wrong))

    async def _awaited(self, stream: str, events: Sequence[Any], returned: Coroutine[Any, Any, Any]) -> Any:
        try:
            found = await returned
        except BaseException:
            self._end(stream)
            raise
        self._end(stream, events, found)
        return found

    def _begin(self, stream: str, events: Sequence[Any]) -> None:
        indices = [event.index for event in events]
        with self._turn:
            self.calls += 1
            if stream in self._active:
                self.wrong.append(f"{stream}: two calls at once")
            self._active.add(stream)
            if not indices or indices != sorted(set(indices)):
                self.wrong.append(f"{stream}: called with {_some(indices)}, which are in no order")
            if any(event.stream != stream for event in events):
                self.wrong.append(f"{stream}: called with events of other streams")

    def _end(self, stream: str, events: Sequence[Any] = (), returned: Any = None) -> None:
        with self._turn:
            self._active.discard(stream)
            if events:
                self._done.append(_Done([*events], _to(events, to_outcome(returned))))

    def _fold(self, *, is_dense: bool) -> tuple[dict[Place, list[Any]], dict[Place, int]]:
        """Return what was done at each place in order, and to where events were skipped."""
        with self._turn:
            done = [*self._done]
        handled, wanted = defaultdict[Place, list[Any]](list), defaultdict[Place, int](int)
        skipped: dict[Place, int] = {}
        for events, to in done:
            for event in events:
                place = _place(event, is_dense=is_dense)
                if wanted[place] <= event.index and event.next <= to:
                    handled[place].append(event)
                    wanted[place] = event.next
            last = _place(events[-1], is_dense=is_dense)
            if to > events[-1].next:
                skipped[last] = wanted[last] = max(wanted[last], to)
        return handled, skipped


def _nothing(stream: str, events: Sequence[Any]) -> None: ...


def _to(events: Sequence[Any], outcome: Outcome) -> int:
    end: int = events[-1].next
    return end if outcome.next is None else outcome.next


def _place(item: SourceItem, *, is_dense: bool) -> Place:
    return item.stream, "" if is_dense else getattr(item, "tranche", "")


def _all_of(source: Source) -> dict[Place, dict[int, SourceItem]]:
    """Return what there is at each place, by index."""
    found: dict[Place, dict[int, SourceItem]] = {}
    for item in (item for tranche in source.tranches() for item in _items(source, tranche)):
        found.setdefault(_place(item, is_dense=source.is_dense), {})[item.index] = item
    return found


def _items(source: Source, tranche: str) -> Iterator[SourceItem]:
    position, is_over = source.beginning(tranche), False
    while not is_over:
        batch = source.reread(tranche, ReadRequest(position, PAGE_EVENTS))
        yield from batch.items
        is_over = batch.is_tail or batch.end == position
        position = batch.end


def _some(indices: Sequence[int]) -> str:
    shown = ", ".join(map(str, indices[:10]))
    return f"{shown} and {len(indices) - 10} more" if len(indices) > 10 else shown
