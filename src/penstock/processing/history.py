"""Puts the events of an entity or a business process in order again, however they came.

By their ordering key, or by the parents that they name: guidelines "Provide a means for explicit event ordering" and
"Use Business Events to signal steps and arrival points in business processes".
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, TypeVar

from penstock.processing.event import body, eid_of, metadata_of, parents_of, unplaced
from penstock.processing.fields import FieldReader, Fields, one
from penstock.processing.ordering import Ordering

E = TypeVar("E")
_GROUP: Final = ((int, str), "a whole number or a text")


@dataclass(frozen=True, slots=True)
class History(Generic[E]):
    """Events in order, each after its parents, as far as these are there."""

    events: list[E]
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By the id of an event that stands there without some of its parents: the ids of those."""


def grouped(events: Iterable[E], fields: Fields) -> dict[Any, list[E]]:
    """Return *events* by what they are about, as they came: by entity, or by business process.

    Args:
        events: Of one event type or of several.
        fields: Paths to what names the entity or the process, such as `data.id`, or a function from an event to that.
            Where there are several, the key is a tuple.

    Raises:
        EventUnusable: an event has not all of these fields.

    >>> grouped([{"order_id": 7, "n": 1}, {"order_id": 8}, {"order_id": 7, "n": 2}], ["order_id"])
    {7: [{'order_id': 7, 'n': 1}, {'order_id': 7, 'n': 2}], 8: [{'order_id': 8}]}
    """
    reader = FieldReader(fields, _GROUP, "fields")
    groups: dict[Any, list[E]] = {}
    for index, event in enumerate(events):
        groups.setdefault(one(reader.read(event, body(event), index, None)), []).append(event)
    return groups


def in_order(events: Iterable[E], order_by: Fields) -> list[E]:
    """Return the events of one entity or process by their ordering keys; those with equal keys as they came.

    An event that came several times, as its `eid` tells, stands there once.

    Args:
        events: In any order.
        order_by: The fields of the ordering key, the first of them the weightiest: paths through the whole event, such
            as the definition's `ordering_key_fields`, or a function from an event to their values. Numbers are compared
            with numbers, texts of digits with such texts as the numbers that they are, times with a zone with such
            times as moments, other texts with other texts letter by letter.

    Raises:
        EventUnusable: an event has no ordering key, or one that cannot be compared with another's; names the event.

    >>> in_order([{"version": 10}, {"version": 9}], ["version"])
    [{'version': 9}, {'version': 10}]
    """
    seen: set[str] = set()
    unique: list[tuple[int, E]] = []
    for index, event in enumerate(events):
        if metadata_of(event).get("eid") is not None:
            eid = eid_of(event, index, None)
            if eid in seen:
                continue
            seen.add(eid)
        unique.append((index, event))
    return Ordering(order_by).sort(unique)


def by_parents(events: Iterable[E]) -> History[E]:
    """Return *events* so that each stands after those that it names in `metadata.parent_eids`.

    Of those that could come next, the one that came first does. An event that came several times stands there once. A
    parent that is not among the events is reported, and not waited for.

    Raises:
        EventUnusable: an event has no id.
        EventUnusable: events are parents of each other, in a circle, and so came in no order; names them.
    """
    nodes: dict[str, E] = {}
    parents: dict[str, tuple[str, ...]] = {}
    for index, event in enumerate(events):
        eid = eid_of(event, index, None)
        if eid not in nodes:
            nodes[eid], parents[eid] = event, parents_of(event, index, None)
    inner = {eid: [parent for parent in named if parent in nodes] for eid, named in parents.items()}
    refuse_circles(inner, nodes)
    missing = {
        eid: tuple(parent for parent in named if parent not in nodes)
        for eid, named in parents.items()
        if len(inner[eid]) < len(named)
    }
    return History([nodes[eid] for eid in arranged(inner)], missing)


def arranged(parents: Mapping[str, Collection[str]]) -> list[str]:
    """Return the keys of *parents* so that each stands after its parents, and as early as it can as they come.

    Left out are those with a parent that is not among the keys, or is left out itself.

    >>> arranged({"c": ["a"], "b": [], "a": [], "d": ["x"]})
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
    """Raise EventUnusable where *parents*, all of them keys, lead back to where they began; names the circle."""
    left = parents.keys() - set(arranged(parents))
    if not left:
        return
    eid = next(eid for eid in parents if eid in left)
    path: dict[str, int] = {}
    while eid not in path:
        path[eid] = len(path)
        eid = next(parent for parent in parents[eid] if parent in left)
    circle = [*list(path)[path[eid] :], eid]
    reason = f"by metadata.parent_eids it comes after itself: {' after '.join(circle)}"
    raise unplaced(nodes[eid], None, None, reason)
