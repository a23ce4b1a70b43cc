"""Parked streams: streams set aside since one of their events failed in all its attempts.

Later events of a parked stream wait with it. They are not kept in memory, only the position to read them again from.
A retry reads the stream page by page from there, until it has caught up; then the stream is no longer parked.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from penstock.processing.engine.tranche import Batch, Position, SourceItem, count_events
from penstock.processing.outcomes import Failure

Place: TypeAlias = tuple[str, str]
"""A stream, and the tranche of the parked span."""
BEHIND = Failure("parked", "events of this stream lie in another tranche, and wait for it")


@dataclass(frozen=True, slots=True)
class Parked:
    """A span that is not handled until an operator retries it. Events behind the first one wait with it, in order."""

    stream: str
    tranche: str
    index: int
    """Index of the first event: the one that could not be handled."""
    next: int
    """Index after the last event so far."""
    events: int
    """Number of waiting events; it includes unread events that a handler has skipped, until the span has ended."""
    attempts: int
    """Total number of attempts for the first event."""
    tag: str
    detail: str
    since: Position
    """Position from which the tranche has to be read again to find them."""

    @property
    def place(self) -> Place:
        """The stream and its tranche."""
        return self.stream, self.tranche


class Parking:
    """The parked streams, and those of them that are tried again.

    Args:
        ended: Called with each span that is no longer parked.
    """

    def __init__(self, ended: Callable[[Parked], None]) -> None:
        self._ended = ended
        self.streams: dict[str, dict[str, Parked]] = {}
        """Parked spans by stream and tranche; of one stream, the span that was parked first comes first."""
        self.retried: dict[str, None] = {}
        """The streams that are tried again; the stream whose page was read last comes last."""
        self._changed: dict[Place, None] = {}
        self._fresh: set[Place] = set()
        """Newly parked places that are not stored yet: stored requests for them are older."""
        self._pages: dict[str, Position] = {}
        self._over: set[Place] = set()
        """Places that are no longer parked, while that is not stored yet."""
        self._tried: set[Place] = set()
        """Places that wait behind a failed retry, while that is not stored yet."""

    def load(self, kept: Iterable[Parked]) -> None:
        """Load the stored spans, the oldest first."""
        for parked in kept:
            self.streams.setdefault(parked.stream, {})[parked.tranche] = parked

    def unload(self, tranche: str) -> None:
        """Forget the spans of a tranche that another processor owns from now on."""
        for stream, spans in [*self.streams.items()]:
            if next(iter(spans)) == tranche:  # An unfinished page belongs to the first span.
                self._pages.pop(stream, None)
            spans.pop(tranche, None)
            if not spans:
                del self.streams[stream]
                self.retried.pop(stream, None)
        self._changed = {place: None for place in self._changed if place[1] != tranche}
        self._over = {place for place in self._over if place[1] != tranche}
        self._tried = {place for place in self._tried if place[1] != tranche}
        self._fresh = {place for place in self._fresh if place[1] != tranche}

    def find_changes(self) -> Mapping[Place, Parked | None]:
        """Return the spans to store that changed since `confirm` was called; None: no longer parked."""
        return {(stream, tranche): self.streams.get(stream, {}).get(tranche) for stream, tranche in self._changed}

    @property
    def has_changes(self) -> bool:
        """True if there are changes to store."""
        return bool(self._changed)

    def list_parked_anew(self, changes: Collection[Place]) -> frozenset[Place]:
        """Return the *changes* whose span ended and was parked again since `confirm`: older requests do not apply."""
        return frozenset(self._over.intersection(changes))

    def list_tried(self, changes: Collection[Place], lost: Collection[str]) -> frozenset[Place]:
        """Return the places that wait behind *changes* of failed retries, except in *lost* tranches."""
        streams = {stream for stream, _ in changes}
        return frozenset(place for place in self._tried if place[0] in streams and place[1] not in lost)

    def confirm(
        self, changes: Mapping[Place, Parked | None], anew: Collection[Place] = (), tried: Collection[Place] = ()
    ) -> None:
        """Record that *changes* are stored. Newer changes of the same spans are still to be stored."""
        self._over -= {place for place, parked in changes.items() if parked is None or place in anew}
        self._tried.difference_update(tried)
        for place, parked in changes.items():
            now = self.streams.get(place[0], {}).get(place[1])
            if now == parked:
                self._changed.pop(place, None)
            if now is None or (parked is not None and parked.attempts == now.attempts):
                self._fresh.discard(place)

    def is_fresh(self, stream: str) -> bool:
        """Return whether a stream is newly parked, and that is not stored yet."""
        return any(place[0] == stream for place in self._fresh)

    def park(self, parked: Parked) -> None:
        """Park a span; after a failed retry, it keeps the events that have come behind it meanwhile."""
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
        """Park the span *asked* to be replayed again, with *failure*, unless it was dropped meanwhile."""
        if asked.stream in self.retried and asked.tranche in self.streams[asked.stream]:
            self.park(replace(asked, attempts=1, tag=failure.tag, detail=failure.detail))

    def wait(self, item: SourceItem, tranche: str, start: Position) -> None:
        """Add an event to a parked stream; its batch begins at *start*."""
        parked = self.streams[item.stream].get(tranche)
        if parked is None:
            tag, detail = BEHIND.tag, BEHIND.detail
            events = count_events(item)
            self._set(Parked(item.stream, tranche, item.index, item.next, events, 0, tag, detail, start))
        elif item.next > parked.next:
            self._set(replace(parked, next=item.next, events=parked.events + count_events(item)))

    def hand_over(self, places: Iterable[Place]) -> None:
        """Forget the spans at *places*: the source stores them, and sends the events again."""
        for stream, tranche in places:
            self._changed.pop((stream, tranche), None)
            self._fresh.discard((stream, tranche))
            spans = self.streams.get(stream, {})
            spans.pop(tranche, None)
            if not spans:
                self.streams.pop(stream, None)

    def retry(self, stream: str) -> None:
        """Try a stream again, if it is parked."""
        if stream in self.streams:
            self.retried[stream] = None

    def drop(self, stream: str) -> None:
        """Drop the waiting events of a stream: they are never handled."""
        self.retried.pop(stream, None)
        self._pages.pop(stream, None)
        for parked in self.streams.pop(stream, {}).values():
            self._leave(parked)

    def list_replays(self) -> list[Parked]:
        """Return the spans to read again, of streams whose last page is done."""
        waiting = (stream for stream in self.retried if stream not in self._pages)
        return [next(iter(self.streams[stream].values())) for stream in waiting]

    def is_searched(self, stream: str) -> bool:  # noqa: ARG002 - This class does not wait for missing events.
        """Return whether a retried stream may have unread events, so that missing ones cannot be known yet."""
        return False

    def is_read(self, stream: str) -> bool:
        """Return whether the events of a stream in memory were read again.

        Else they were read before, and this processor took over a span of the stream that another one parked.
        """
        return stream in self._pages

    def find_beginning(self, stream: str, items: Sequence[SourceItem]) -> int:  # noqa: ARG002 - Indices may be missing.
        """Return the next index to handle of a stream whose *items* were read again."""
        return min(item.index for item in items)

    def take_page(self, asked: Parked, page: Batch) -> list[SourceItem]:
        """Return the events to handle now from a *page* that was read for the span *asked* to be replayed.

        A page may contain events of the stream that were not ingested so far. They may be parked, too, before the page
        is done: then the page is read again.
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
            self._end(parked)  # The parked events no longer exist.
        else:
            self._set(replace(parked, since=page.end))
        return wanted

    def advance(self, stream: str, tranche: str, to: int, events: int) -> None:
        """Record that a number of *events* of a retried stream are done, up to *to*."""
        for parked in self.predict_spans(stream, tranche, to, events):
            self._set(parked)

    def predict_spans(self, stream: str, tranche: str, to: int, events: int) -> list[Parked]:
        """Return the remaining spans of a parked stream once a number of its *events* are done, up to *to*."""
        parked = self.streams[stream][tranche]
        return [replace(parked, index=max(to, parked.index), events=max(0, parked.events - events))]

    def end_page(self, stream: str, tranche: str) -> None:
        """Record that a page is done: the events behind it have to be read, or the stream has caught up."""
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
class StreamSearch:
    """Progress of reading a stream again."""

    places: dict[str, Position] = field(default_factory=dict)
    """Positions to continue reading from, by tranche."""
    pages: Counter[str] = field(default_factory=Counter)
    """Number of pages read, by tranche."""
    ended: set[str] = field(default_factory=set)
    """The tranches that have no further events of it, until new ones come."""
    has_found: bool = False
    """True if some of the events found are not done."""


class SequencedParking(Parking):
    """Parked streams if all events are required: a stream goes on only with exactly its next index.

    That event may have come late, behind others, or in another tranche. So all parked spans of the stream are searched
    page by page; other events found are kept in memory meanwhile.

    Invariant: all spans of a stream have the same `index`, the next one to handle.
    """

    def __init__(self, ended: Callable[[Parked], None]) -> None:
        super().__init__(ended)
        self._searches: dict[str, StreamSearch] = {}

    def load(self, kept: Iterable[Parked]) -> None:
        """Load the stored spans, the oldest first."""
        super().load(kept)
        for stream in self.streams:
            self._align_spans(stream)

    def unload(self, tranche: str) -> None:
        """Forget the spans of a tranche that another processor owns from now on."""
        super().unload(tranche)
        self._searches = {stream: search for stream, search in self._searches.items() if stream in self.streams}

    def find_beginning(self, stream: str, items: Sequence[SourceItem]) -> int:  # noqa: ARG002 - Earlier ones may exist.
        """Return the next index to handle of a stream whose *items* were read again."""
        return min(parked.index for parked in self.streams[stream].values())

    def is_read(self, stream: str) -> bool:
        """Return whether the events of a stream in memory were read again."""
        return stream in self.retried

    def is_searched(self, stream: str) -> bool:
        """Return whether a retried stream may have unread events, so that missing ones cannot be known yet."""
        return stream in self.retried and bool(self._list_unread(stream))

    def park(self, parked: Parked) -> None:
        """Park a span; after a failed retry, the stream keeps its spans."""
        stream = parked.stream
        if stream in self.retried:
            first = next(iter(self.streams[stream].values()))
            parked = replace(first, attempts=parked.attempts, tag=parked.tag, detail=parked.detail)
        self._searches.pop(stream, None)
        super().park(parked)
        self._align_spans(stream)

    def wait(self, item: SourceItem, tranche: str, start: Position) -> None:
        """Add an event to a parked stream; its batch begins at *start*."""
        stream, spans = item.stream, self.streams[item.stream]
        wanted, known = self.find_beginning(stream, ()), spans.get(tranche)
        if item.next <= wanted:
            return  # A repeat.
        if known is not None and item.next <= known.next:  # A late event that was missing, or a repeat.
            self._set(replace(known, events=known.events + count_events(item)))
        else:
            super().wait(item, tranche, start)
            self._set(replace(spans[tranche], index=wanted))
        if (search := self._searches.get(stream)) is not None:
            search.ended.discard(tranche)

    def drop(self, stream: str) -> None:
        """Drop the waiting events of a stream: they are never handled."""
        self._searches.pop(stream, None)
        super().drop(stream)

    def list_replays(self) -> list[Parked]:
        """Return the spans to read again to find the next event of each stream."""
        found = []
        for stream in self.retried:
            if unread := self._list_unread(stream):
                pages = self._get_search(stream).pages
                found.append(min(unread, key=lambda parked: pages[parked.tranche]))
        return found

    def take_page(self, asked: Parked, page: Batch) -> list[SourceItem]:
        """Return the unfinished events of a stream in a *page*, by index."""
        stream, tranche = asked.place
        unread = {each.tranche: each for each in (self._list_unread(stream) if stream in self.retried else ())}
        parked = unread.get(tranche)
        if parked is None or parked.since != asked.since:
            return []  # It was dropped meanwhile, or parked again.
        self.retried[stream] = self.retried.pop(stream)
        search, most = self._get_search(stream), max(each.next for each in self.streams[stream].values())
        items = [item for item in page.items if item.stream == stream and item.next > parked.index]
        found = sorted((item for item in items if item.index < most), key=lambda item: item.index)
        search.pages[tranche] += 1
        search.has_found |= bool(found)
        if len(found) == len(items):
            search.places[tranche] = page.end
        # Events that came meanwhile may lie behind the page.
        if parked == asked and (len(found) < len(items) or (page.is_tail and not page.items)):
            search.ended.add(tranche)
        if not search.has_found:
            self._store_read_positions(stream)
        return found

    def predict_spans(
        self,
        stream: str,
        tranche: str,  # noqa: ARG002 - All spans have the same next index.
        to: int,
        events: int,
    ) -> list[Parked]:
        """Return the remaining spans of a parked stream once a number of its *events* are done, up to *to*."""
        left, spans = events, []
        for parked in self.streams[stream].values():
            done = min(left, parked.events)
            left -= done
            spans.append(replace(parked, index=max(to, parked.index), events=parked.events - done))
        return spans

    def end_page(self, stream: str, tranche: str) -> None:  # noqa: ARG002 - There may be several.
        """Record that all events found are done: later ones have to be read, or the stream has caught up."""
        self._get_search(stream).has_found = False
        for parked in [*self.streams[stream].values()]:
            if parked.index >= parked.next:
                self._end(parked)
        self._store_read_positions(stream)

    def _store_read_positions(self, stream: str) -> None:
        """Store the positions read to of a stream without events in memory; end its spans if no events are left."""
        if stream in self.streams:
            search = self._get_search(stream)
            for tranche, place in search.places.items():
                if (parked := self.streams[stream].get(tranche)) is not None and parked.since != place:
                    self._set(replace(parked, since=place))
            if not self._list_unread(stream):
                for parked in [*self.streams[stream].values()]:
                    self._end(parked)
        if stream not in self.streams:
            self._searches.pop(stream, None)

    def _list_unread(self, stream: str) -> list[Parked]:
        """Return the spans that may have unread events, with the positions to continue reading from."""
        search = self._get_search(stream)
        return [
            replace(parked, since=search.places.get(tranche, parked.since))
            for tranche, parked in self.streams[stream].items()
            if tranche not in search.ended and parked.next > parked.index
        ]

    def _get_search(self, stream: str) -> StreamSearch:
        return self._searches.setdefault(stream, StreamSearch())

    def _align_spans(self, stream: str) -> None:
        wanted = self.find_beginning(stream, ())
        for parked in [*self.streams[stream].values()]:
            if parked.index != wanted:
                self._set(replace(parked, index=wanted))
