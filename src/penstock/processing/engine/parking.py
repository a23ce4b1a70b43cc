"""Streams that were set aside, since an event of theirs could not be handled however often that was tried.

What comes of such a stream waits with it, unread: it is known from where it can be read again. When it is tried again
it is read page by page from there, until it has caught up with what came meanwhile; then it is as all others are.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from penstock.processing.engine.item import Batch, Position, SourceItem, events_of
from penstock.processing.outcomes import Failure

Place: TypeAlias = tuple[str, str]
"""A stream, and the tranche that it lies in."""
BEHIND = Failure("parked", "events of this stream lie in another tranche, and wait for it")


@dataclass(frozen=True, slots=True)
class Parked:
    """A span that nobody handles until somebody says so: the events behind the first one wait with it, in order."""

    stream: str
    tranche: str
    index: int
    """Of the first event: the one that could not be handled."""
    next: int
    """Behind the last event that has come so far."""
    events: int
    """How many wait; those that a handler has skipped unread are among them, until it is over."""
    attempts: int
    """How often the first event was tried, in all."""
    tag: str
    detail: str
    since: Position
    """From where the tranche is to be read again to find them."""

    @property
    def place(self) -> Place:
        """The stream and its tranche."""
        return self.stream, self.tranche


class Parking:
    """The streams that are set aside, and those of them that are tried again.

    Args:
        ended: Is told what is parked no more.
    """

    def __init__(self, ended: Callable[[Parked], None]) -> None:
        self._ended = ended
        self.streams: dict[str, dict[str, Parked]] = {}
        """By stream and tranche; of several tranches of one stream, the one that was parked first comes first."""
        self.retried: dict[str, None] = {}
        """The streams that are tried again; those of which a page was read last come last."""
        self._changed: dict[Place, None] = {}
        self._fresh: set[Place] = set()
        """What was parked and is not kept as that yet: what is asked for it was asked before."""
        self._pages: dict[str, Position] = {}
        self._over: set[Place] = set()
        """What is parked no more, where that is not kept yet."""
        self._tried: set[Place] = set()
        """What waits behind what was tried in vain, where that is not kept yet."""

    def load(self, kept: Iterable[Parked]) -> None:
        """Begin with what was kept, the oldest first."""
        for parked in kept:
            self.streams.setdefault(parked.stream, {})[parked.tranche] = parked

    def unload(self, tranche: str) -> None:
        """Let go of what is kept of a tranche, which another processor has from now on."""
        for stream, spans in [*self.streams.items()]:
            if next(iter(spans)) == tranche:  # Of that the page was that is not done, if any is.
                self._pages.pop(stream, None)
            spans.pop(tranche, None)
            if not spans:
                del self.streams[stream]
                self.retried.pop(stream, None)
        self._changed = {place: None for place in self._changed if place[1] != tranche}
        self._over = {place for place in self._over if place[1] != tranche}
        self._tried = {place for place in self._tried if place[1] != tranche}
        self._fresh = {place for place in self._fresh if place[1] != tranche}

    def changes(self) -> Mapping[Place, Parked | None]:
        """Return what is to be kept since `kept` was called: as it is now, or None where it is over."""
        return {(stream, tranche): self.streams.get(stream, {}).get(tranche) for stream, tranche in self._changed}

    @property
    def has_changes(self) -> bool:
        """Whether there are `changes`."""
        return bool(self._changed)

    def anew(self, changes: Collection[Place]) -> frozenset[Place]:
        """Return which *changes* are of what was parked no more since `kept`, and is anew: nothing is wanted of it."""
        return frozenset(self._over.intersection(changes))

    def tried(self, changes: Collection[Place], lost: Collection[str]) -> frozenset[Place]:
        """Return what waits behind *changes* that were tried in vain, but in tranches that are *lost*."""
        streams = {stream for stream, _ in changes}
        return frozenset(place for place in self._tried if place[0] in streams and place[1] not in lost)

    def kept(
        self, changes: Mapping[Place, Parked | None], anew: Collection[Place] = (), tried: Collection[Place] = ()
    ) -> None:
        """Take note that *changes* are kept. What has changed again since they were told is still to be."""
        self._over -= {place for place, parked in changes.items() if parked is None or place in anew}
        self._tried.difference_update(tried)
        for place, parked in changes.items():
            now = self.streams.get(place[0], {}).get(place[1])
            if now == parked:
                self._changed.pop(place, None)
            if now is None or (parked is not None and parked.attempts == now.attempts):
                self._fresh.discard(place)

    def is_fresh(self, stream: str) -> bool:
        """Tell whether a stream was parked, and that is not kept yet."""
        return any(place[0] == stream for place in self._fresh)

    def park(self, parked: Parked) -> None:
        """Set a span aside; one that was tried again in vain keeps what has come behind it meanwhile."""
        before = self.streams.setdefault(parked.stream, {}).get(parked.tranche)
        if before is not None:
            attempts = before.attempts + parked.attempts
            parked = replace(before, attempts=attempts, tag=parked.tag, detail=parked.detail)
            self._tried |= {each.place for each in self.streams[parked.stream].values() if each is not before}
        self.retried.pop(parked.stream, None)
        self._pages.pop(parked.stream, None)
        self._fresh.add(parked.place)
        self._set(parked)

    def fail(self, asked: Parked, failure: Failure) -> None:
        """Set aside again, for that reason, what was *asked* to be replayed, unless it was dropped meanwhile."""
        if asked.stream in self.retried and asked.tranche in self.streams[asked.stream]:
            self.park(replace(asked, attempts=1, tag=failure.tag, detail=failure.detail))

    def wait(self, item: SourceItem, tranche: str, start: Position) -> None:
        """Have an event of a parked stream wait; its batch begins at *start*."""
        parked = self.streams[item.stream].get(tranche)
        if parked is None:
            tag, detail = BEHIND.tag, BEHIND.detail
            events = events_of(item)
            self._set(Parked(item.stream, tranche, item.index, item.next, events, 0, tag, detail, start))
        elif item.next > parked.next:
            self._set(replace(parked, next=item.next, events=parked.events + events_of(item)))

    def hand_over(self, places: Iterable[Place]) -> None:
        """Forget what is parked at *places*: somebody else keeps it, and sends the events again."""
        for stream, tranche in places:
            self._changed.pop((stream, tranche), None)
            self._fresh.discard((stream, tranche))
            spans = self.streams.get(stream, {})
            spans.pop(tranche, None)
            if not spans:
                self.streams.pop(stream, None)

    def retry(self, stream: str) -> None:
        """Have a stream tried again, if it is parked."""
        if stream in self.streams:
            self.retried[stream] = None

    def drop(self, stream: str) -> None:
        """Forget what waits of a stream: nobody will handle it."""
        self.retried.pop(stream, None)
        self._pages.pop(stream, None)
        for parked in self.streams.pop(stream, {}).values():
            self._leave(parked)

    def replays(self) -> list[Parked]:
        """Return what is to be read again, of streams whose last page is done."""
        waiting = (stream for stream in self.retried if stream not in self._pages)
        return [next(iter(self.streams[stream].values())) for stream in waiting]

    def is_searched(self, stream: str) -> bool:  # noqa: ARG002 - Nobody waits for what is missing.
        """Tell whether there may be more of a stream that is tried again, so that nobody knows what is missing."""
        return False

    def is_read(self, stream: str) -> bool:
        """Tell whether what is held of a stream was read again.

        Else it was held before, and what others have parked of it in another tranche has come to this processor.
        """
        return stream in self._pages

    def beginning(self, stream: str, items: Sequence[SourceItem]) -> int:  # noqa: ARG002 - Indices may be missing.
        """Return with which index a stream goes on of which *items* were read again."""
        return min(item.index for item in items)

    def taken(self, asked: Parked, page: Batch) -> list[SourceItem]:
        """Return which events of a *page* are to be handled now, that was read for what was *asked* to be replayed.

        A page may have more of the stream than was taken in so far. That may come to wait, too, before the page is
        done: then the page is read again.
        """
        parked = self.streams.get(asked.stream, {}).get(asked.tranche)
        if parked is None or asked.stream not in self.retried:
            return []  # It was dropped meanwhile.
        self.retried[asked.stream] = self.retried.pop(asked.stream)
        found = [item for item in page.items if item.stream == asked.stream and item.index >= parked.index]
        wanted = [item for item in found if item.index < parked.next]
        has_more = len(wanted) < len(found)
        if wanted:
            self._pages[asked.stream] = asked.since if has_more else page.end
        elif has_more or (page.is_tail and not page.items and parked.next == asked.next):
            self._end(parked)  # What waited is not there any more.
        else:
            self._set(replace(parked, since=page.end))
        return wanted

    def handled(self, stream: str, tranche: str, to: int, events: int) -> None:
        """Take note that so many *events* of a stream that is tried again are done, up to *to*."""
        for parked in self.handled_if(stream, tranche, to, events):
            self._set(parked)

    def handled_if(self, stream: str, tranche: str, to: int, events: int) -> list[Parked]:
        """Return what is left of a parked stream once so many *events* of it are done, up to *to*."""
        parked = self.streams[stream][tranche]
        return [replace(parked, index=max(to, parked.index), events=max(0, parked.events - events))]

    def page_done(self, stream: str, tranche: str) -> None:
        """Take note that a page is done: what waits behind it is to be read, or it has caught up."""
        parked = self.streams[stream][tranche]
        end = self._pages.pop(stream)
        if parked.index >= parked.next:
            self._end(parked)
        else:
            self._set(replace(parked, since=end))

    def _end(self, parked: Parked) -> None:
        spans = self.streams[parked.stream]
        del spans[parked.tranche]
        if not spans:
            del self.streams[parked.stream]
            self.retried.pop(parked.stream, None)
        self._leave(parked)

    def _leave(self, parked: Parked) -> None:
        self._changed[parked.place] = None
        self._over.add(parked.place)
        self._ended(parked)

    def _set(self, parked: Parked) -> None:
        self.streams[parked.stream][parked.tranche] = parked
        self._changed[parked.place] = None


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
    """The streams that are set aside where no index may be left out: they go on with the very index that comes next.

    That event may have come late, behind others, or in another tranche. So it is looked for in all that is parked of
    its stream, page by page; what is found on the way is held meanwhile.

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

    def beginning(self, stream: str, items: Sequence[SourceItem]) -> int:  # noqa: ARG002 - There may be some before these.
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

    def wait(self, item: SourceItem, tranche: str, start: Position) -> None:
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

    def taken(self, asked: Parked, page: Batch) -> list[SourceItem]:
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
