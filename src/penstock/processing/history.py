"""Restores the order of an entity's or business process's events, which may arrive in any order.

By their ordering key, or by the parents that they name: guidelines "Provide a means for explicit event ordering" and
"Use Business Events to signal steps and arrival points in business processes".
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

from penstock.processing.event import (
    FieldReader,
    Fields,
    Ordering,
    decode_body,
    make_order_error,
    normalize_eid,
    read_eid,
    read_metadata,
    read_parents,
    unwrap,
)
from penstock.processing.parameters import check_count
from penstock.wire.log.reader.pages import Page

__all__ = ["History", "Resequencer", "group_events", "sort_by_parents", "sort_events"]

E = TypeVar("E")
_GROUP: Final = ((int, str), "a whole number or a text")


@dataclass(frozen=True, slots=True)
class History(Generic[E]):
    """Events in order, each after those of its parents that are present."""

    events: list[E]
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By the id of an event without some of its parents: the ids of the missing parents."""


def group_events(events: Iterable[E], fields: Fields) -> dict[Any, list[E]]:
    """Group *events* by entity or business process; each group keeps their order.

    Args:
        events: Events of one or several event types.
        fields: Paths to the values that name the entity or the process, such as `data.id`, or a function from an event
            to them. If there are several, the key is a tuple.

    Raises:
        EventUnusable: an event lacks one of these fields.

    >>> group_events([{"order_id": 7, "n": 1}, {"order_id": 8}, {"order_id": 7, "n": 2}], ["order_id"])
    {7: [{'order_id': 7, 'n': 1}, {'order_id': 7, 'n': 2}], 8: [{'order_id': 8}]}
    """
    reader = FieldReader(fields, _GROUP, "fields")
    groups: dict[Any, list[E]] = {}
    for index, event in enumerate(events):
        groups.setdefault(unwrap(reader.read(event, decode_body(event), index, None)), []).append(event)
    return groups


def sort_events(events: Iterable[E], order_by: Fields) -> list[E]:
    """Return the events of one entity or process sorted by ordering key; equal ones keep their order.

    An event that comes several times with the same `eid` is returned once.

    Args:
        events: In any order.
        order_by: The fields of the ordering key, the most significant first: paths through the whole event, such
            as the definition's `ordering_key_fields`, or a function from an event to their values. Numbers are compared
            with numbers, texts of digits with such texts as the numbers that they are, times with a zone with such
            times as moments, other texts with other texts letter by letter.

    Raises:
        EventUnusable: an event has no ordering key, or one that cannot be compared with another's; names the event.

    >>> sort_events([{"version": 10}, {"version": 9}], ["version"])
    [{'version': 9}, {'version': 10}]
    """
    seen: set[str] = set()
    unique: list[tuple[int, E]] = []
    for index, event in enumerate(events):
        if read_metadata(event).get("eid") is not None:
            eid = read_eid(event, index, None)
            if eid in seen:
                continue
            seen.add(eid)
        unique.append((index, event))
    return Ordering(order_by).sort(unique)


def sort_by_parents(events: Iterable[E]) -> History[E]:
    """Return *events* sorted so that each follows its parents in `metadata.parent_eids`.

    Otherwise events keep their order. An event that comes several times is returned once. `missing` names parents that
    are not among the events; no event waits for them.

    Raises:
        EventUnusable: an event has no id.
        EventUnusable: events are parents of each other, in a circle, and so have no order; names them.
    """
    nodes: dict[str, E] = {}
    parents: dict[str, tuple[str, ...]] = {}
    for index, event in enumerate(events):
        eid = read_eid(event, index, None)
        if eid not in nodes:
            nodes[eid], parents[eid] = event, read_parents(event, index, None)
    inner = {eid: [parent for parent in named if parent in nodes] for eid, named in parents.items()}
    refuse_circles(inner, nodes)
    missing = {
        eid: tuple(parent for parent in named if parent not in nodes)
        for eid, named in parents.items()
        if len(inner[eid]) < len(named)
    }
    return History([nodes[eid] for eid in sort_topologically(inner)], missing)


def sort_topologically(parents: Mapping[str, Collection[str]]) -> list[str]:
    """Return the keys of *parents* sorted so that each follows its parents; otherwise they keep their order.

    A key with a parent that is not among the keys, or is omitted itself, is omitted.

    >>> sort_topologically({"c": ["a"], "b": [], "a": [], "d": ["x"]})
    ['b', 'a', 'c']
    """
    places = {eid: place for place, eid in enumerate(parents)}
    eids = list(parents)
    awaited = {eid: len(named) for eid, named in parents.items()}
    children: dict[str, list[str]] = {}
    for eid, named in parents.items():
        for parent in named:
            children.setdefault(parent, []).append(eid)
    ready = [places[eid] for eid, count in awaited.items() if not count]
    heapify(ready)
    order = []
    while ready:
        eid = eids[heappop(ready)]
        order.append(eid)
        for child in children.get(eid, ()):
            awaited[child] -= 1
            if not awaited[child]:
                heappush(ready, places[child])
    return order


def refuse_circles(parents: Mapping[str, Collection[str]], nodes: Mapping[str, Any]) -> None:
    """Raise EventUnusable if *parents*, all of them keys, form a circle; names the circle."""
    left = parents.keys() - set(sort_topologically(parents))
    if not left:
        return
    eid = next(eid for eid in parents if eid in left)
    path: dict[str, int] = {}
    while eid not in path:
        path[eid] = len(path)
        eid = next(parent for parent in parents[eid] if parent in left)
    circle = [*list(path)[path[eid] :], eid]
    reason = f"by metadata.parent_eids it comes after itself: {' after '.join(circle)}"
    raise make_order_error(nodes[eid], None, None, reason)


_Awaited = dict[str, list[str]]

LIMIT_EVENTS: Final = 10_000
REMEMBERED_EVENTS: Final = 100_000


class _HeldEvent(NamedTuple, Generic[E]):
    event: E
    parents: tuple[str, ...]
    number: int
    """The event's number among all that were taken."""
    feed: str


class _OpenPages:
    """The pages of one feed that were taken and are not settled."""

    def __init__(self) -> None:
        self._open: deque[tuple[int, Page]] = deque()

    def add(self, page: Page, end: int) -> None:
        """Add *page*, whose events have numbers below *end*."""
        self._open.append((end, Page((), page.cursors, page.since)))

    def take_cursors(self, start: int | None) -> Page:
        """Return the cursors after the pages whose events are all before number *start*; None: after all pages."""
        since: dict[int, str] = {}
        cursors: dict[int, str] = {}
        while self._open and (start is None or self._open[0][0] <= start):
            _, page = self._open.popleft()
            since = {**page.since, **since}
            cursors = {**cursors, **page.cursors}
        return Page((), cursors, since)


class Resequencer(Generic[E]):
    """Holds events back until their parents, named in `metadata.parent_eids`, are released.

    For consumers of business processes whose steps come from several partitions or feeds, and so in no order. An event
    waits until its parents are released, or until *limit* more events, repeats included, were taken; then it is
    released without them, and `missing` names them. Time alone releases no event: without new events, held ones wait
    until you call `release_all`. All state is in memory: if the consumer's transaction fails, make another object, and
    begin from the stored cursors. Those must not be after held events: store the ones of `take_cursors`.

    Args:
        limit: Events to take until an event is released without its parents.
        remembered: The number of released events whose ids are remembered. Pass older ones that are parents as
            *known*.

    Raises:
        BadParameter: *limit* or *remembered* is no whole number from 1.
    """

    def __init__(self, limit: int = LIMIT_EVENTS, *, remembered: int = REMEMBERED_EVENTS) -> None:
        check_count("limit", limit)
        check_count("remembered", remembered)
        self._limit = limit
        self._remembered = remembered
        self._held: dict[str, _HeldEvent[E]] = {}
        self._out: dict[str, None] = {}
        """The ids of released events, in the order of release."""
        self._taken = 0
        self._pages: dict[str, _OpenPages] = {}

    @property
    def events(self) -> list[E]:
        """The held events, in the order of arrival."""
        return [held.event for held in self._held.values()]

    def find_unknown_parents(self, events: Iterable[Any]) -> set[str]:
        """Return the ids of parents of *events*, and of held ones, that are not known to have come.

        Pass these ids to `Duplicates.seen`, and its result to `take` as *known*.

        Raises:
            EventUnusable: as `take`.
        """
        mine: set[str] = set()
        named = {parent for held in self._held.values() for parent in held.parents}
        for index, event in enumerate(events):
            mine.add(read_eid(event, index, None))
            named.update(read_parents(event, index, None))
        return named - self._out.keys() - self._held.keys() - mine

    def take(self, events: Iterable[E] | Page, *, known: Collection[str] = (), feed: str = "") -> History[E]:
        """Take *events*, and return those released now, in order; `missing` names the parents that were given up.

        An event that is held, or was released recently, is a repeat and is ignored.

        Args:
            events: Events, or a page of them, whose cursors `take_cursors` returns when they may be stored.
            known: Ids of events that were processed before, in an earlier run for instance.
            feed: The feed of the page, if you take from several.

        Raises:
            EventUnusable: an event has no id; nothing was taken.
            EventUnusable: events are parents of each other, in a circle; names them. Nothing was taken.
        """
        page = events if isinstance(events, Page) else None
        given: Iterable[Any] = page.events if page else events  # type: ignore[assignment]
        held = dict(self._held)
        taken = self._taken
        for index, event in enumerate(given):
            eid = read_eid(event, index, None)
            if eid not in held and eid not in self._out:
                held[eid] = _HeldEvent(event, read_parents(event, index, None), taken, feed)
            taken += 1
        refuse_circles(
            {eid: [parent for parent in each.parents if parent in held] for eid, each in held.items()},
            {eid: each.event for eid, each in held.items()},
        )
        self._held, self._taken = held, taken
        if page:
            self._pages.setdefault(feed, _OpenPages()).add(page, taken)
        return self._release(frozenset(map(normalize_eid, known)), overdue=taken - self._limit)

    def release_all(self) -> History[E]:
        """Release all held events, and return them in order, each after those of its parents that are present.

        For a feed that has ended, or had no events for longer than you want to wait. `missing` names the parents that
        were given up; one that arrives later is released by itself.
        """
        return self._release(frozenset(), overdue=self._taken)

    def take_cursors(self, feed: str = "") -> Page:
        """Return the cursors that may be stored now, as a page without events: all events before them are released.

        The page follows the one returned last, so that `CursorTable.advance` can store it. Call it once after each
        `take`, when the released events are processed.
        """
        pages = self._pages.get(feed)
        if pages is None:
            return Page()
        return pages.take_cursors(next((held.number for held in self._held.values() if held.feed == feed), None))

    def _release(self, known: frozenset[str], overdue: int) -> History[E]:
        """Release events that wait for no parent, and those with a number below *overdue*."""
        awaited = {
            eid: [parent for parent in held.parents if parent not in known and parent not in self._out]
            for eid, held in self._held.items()
        }
        order = sort_topologically(awaited)
        late = {eid for eid, held in self._held.items() if held.number < overdue}.difference(order)
        if late:  # First events that wait only for parents that never came, then those that wait for waiting ones.
            order = sort_topologically(_reduce(awaited, late, self._held))
            if late := late.difference(order):
                order += sort_topologically(_reduce(_remove(awaited, order), late, late))
        missing: dict[str, tuple[str, ...]] = {}
        events: list[E] = []
        for eid in order:
            if lacking := tuple(parent for parent in awaited[eid] if parent not in self._out):
                missing[eid] = lacking
            self._out[eid] = None
            events.append(self._held.pop(eid).event)
        for eid in list(islice(self._out, max(0, len(self._out) - self._remembered))):
            del self._out[eid]
        return History(events, missing)


def _reduce(awaited: _Awaited, late: Collection[str], waited_for: Collection[str]) -> _Awaited:
    """Return *awaited*, reduced so that *late* events wait only for those in *waited_for*."""
    return {
        eid: [parent for parent in parents if parent in waited_for] if eid in late else parents
        for eid, parents in awaited.items()
    }


def _remove(awaited: _Awaited, out: Collection[str]) -> _Awaited:
    gone = set(out)
    return {
        eid: [parent for parent in parents if parent not in gone] for eid, parents in awaited.items() if eid not in gone
    }
