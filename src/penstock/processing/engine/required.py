"""Streams that were set aside where all events are required: they go on with the very index that comes next.

That event may have come late, behind others, or in another tranche. So it is looked for in all that is parked of its
stream, page by page; what is found on the way is held meanwhile.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from penstock.processing.engine.item import Batch, Item, Position, events_of
from penstock.processing.engine.parked import Parked, Parking


@dataclass(slots=True)
class _Search:
    """How far a stream was read again."""

    places: dict[str, Position] = field(default_factory=dict)
    """From where it is to be read on, by tranche."""
    pages: Counter[str] = field(default_factory=Counter)
    """How many were read, by tranche."""
    ended: set[str] = field(default_factory=set)
    """The tranches that have no more of it, unless something comes."""
    has_found: bool = False
    """Whether not all is done that was found."""


class Required(Parking):
    """The streams that are set aside where no index may be left out.

    Invariant: all spans of a stream have the same `index`, the one that it wants next.
    """

    def __init__(self, ended: Callable[[Parked], None]) -> None:
        super().__init__(ended)
        self._searches: dict[str, _Search] = {}

    def load(self, kept: Iterable[Parked]) -> None:
        """Begin with what was kept, the oldest first."""
        super().load(kept)
        for stream in self.streams:
            self._level(stream)

    def unload(self, tranche: str) -> None:
        """Let go of what is kept of a tranche, which another processor has from now on."""
        super().unload(tranche)
        self._searches = {stream: search for stream, search in self._searches.items() if stream in self.streams}

    def beginning(self, stream: str, items: Sequence[Item]) -> int:  # noqa: ARG002 - There may be some before these.
        """Return with which index a stream goes on of which *items* were read again."""
        return min(parked.index for parked in self.streams[stream].values())

    def is_read(self, stream: str) -> bool:
        """Tell whether what is held of a stream was read again."""
        return stream in self.retried

    def is_searched(self, stream: str) -> bool:
        """Tell whether there may be more of a stream that is tried again, so that nobody knows what is missing."""
        return stream in self.retried and bool(self._unread(stream))

    def park(self, parked: Parked) -> None:
        """Set a span aside; what was tried again in vain keeps its spans."""
        stream = parked.stream
        if stream in self.retried:
            first = next(iter(self.streams[stream].values()))
            parked = replace(first, attempts=parked.attempts, tag=parked.tag, detail=parked.detail)
        self._searches.pop(stream, None)
        super().park(parked)
        self._level(stream)

    def wait(self, item: Item, tranche: str, start: Position) -> None:
        """Have an event of a parked stream wait; its batch begins at *start*."""
        stream, spans = item.stream, self.streams[item.stream]
        wanted, known = self.beginning(stream, ()), spans.get(tranche)
        if item.next <= wanted:
            return  # A repeat.
        if known is not None and item.next <= known.next:  # It has come late, where it was missing, or again.
            self._set(replace(known, events=known.events + events_of(item)))
        else:
            super().wait(item, tranche, start)
            self._set(replace(spans[tranche], index=wanted))
        if (search := self._searches.get(stream)) is not None:
            search.ended.discard(tranche)

    def drop(self, stream: str) -> None:
        """Forget what waits of a stream: nobody will handle it."""
        self._searches.pop(stream, None)
        super().drop(stream)

    def replays(self) -> list[Parked]:
        """Return what is to be read again to find what comes next of each stream."""
        found = []
        for stream in self.retried:
            if unread := self._unread(stream):
                pages = self._search(stream).pages
                found.append(min(unread, key=lambda parked: pages[parked.tranche]))
        return found

    def taken(self, asked: Parked, page: Batch) -> list[Item]:
        """Return what a *page* has of a stream that is not done, by index."""
        stream, tranche = asked.place
        unread = {each.tranche: each for each in (self._unread(stream) if stream in self.retried else ())}
        parked = unread.get(tranche)
        if parked is None or parked.since != asked.since:
            return []  # It was dropped meanwhile, or parked again.
        self.retried[stream] = self.retried.pop(stream)
        search, most = self._search(stream), max(each.next for each in self.streams[stream].values())
        items = [item for item in page.items if item.stream == stream and item.next > parked.index]
        found = sorted((item for item in items if item.index < most), key=lambda item: item.index)
        search.pages[tranche] += 1
        search.has_found |= bool(found)
        if len(found) == len(items):
            search.places[tranche] = page.end
        # What came meanwhile may lie behind the page, if it was not in it.
        if parked == asked and (len(found) < len(items) or (page.is_tail and not page.items)):
            search.ended.add(tranche)
        if not search.has_found:
            self._go_on(stream)
        return found

    def handled_if(
        self,
        stream: str,
        tranche: str,  # noqa: ARG002 - What is wanted next is the same in all.
        to: int,
        events: int,
    ) -> list[Parked]:
        """Return what is left of a parked stream once so many *events* of it are done, up to *to*."""
        left, spans = events, []
        for parked in self.streams[stream].values():
            done = min(left, parked.events)
            left -= done
            spans.append(replace(parked, index=max(to, parked.index), events=parked.events - done))
        return spans

    def page_done(self, stream: str, tranche: str) -> None:  # noqa: ARG002 - There may be several.
        """Take note that all is done that was found: what is behind it is to be read, or it has caught up."""
        self._search(stream).has_found = False
        for parked in [*self.streams[stream].values()]:
            if parked.index >= parked.next:
                self._end(parked)
        self._go_on(stream)

    def _go_on(self, stream: str) -> None:
        """Begin where it was read to, of a stream of which nothing is held; end it if nothing of it is there."""
        if stream in self.streams:
            search = self._search(stream)
            for tranche, place in search.places.items():
                if (parked := self.streams[stream].get(tranche)) is not None and parked.since != place:
                    self._set(replace(parked, since=place))
            if not self._unread(stream):
                for parked in [*self.streams[stream].values()]:
                    self._end(parked)
        if stream not in self.streams:
            self._searches.pop(stream, None)

    def _unread(self, stream: str) -> list[Parked]:
        """Return what there may be more of, with the places from where it is to be read on."""
        search = self._search(stream)
        return [
            replace(parked, since=search.places.get(tranche, parked.since))
            for tranche, parked in self.streams[stream].items()
            if tranche not in search.ended and parked.next > parked.index
        ]

    def _search(self, stream: str) -> _Search:
        return self._searches.setdefault(stream, _Search())

    def _level(self, stream: str) -> None:
        wanted = self.beginning(stream, ())
        for parked in [*self.streams[stream].values()]:
            if parked.index != wanted:
                self._set(replace(parked, index=wanted))
