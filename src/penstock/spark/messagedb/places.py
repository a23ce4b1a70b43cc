"""Spark's offsets: readable JSON by category, and the places that it stands for.

    {"account": 17, "payment": 12}

is where a micro-batch ends: the global position wanted next of each category.

Spark keeps where each micro-batch ends, and takes it that the next begins there. Where the first one of a query began,
Spark forgets; there the end says so:

    {"account": {"from": 3, "next": 17}}

Invariants:
    A micro-batch that is planned again has the same stretches, whatever has happened to the store since.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from penstock.errors import BadParameter

FIRST: Final = 1
"""The global position that MessageDB gives first."""


class CategoryPlace(NamedTuple):
    """A place in one category."""

    next: int
    """The global position wanted next."""
    begun: int | None = None
    """Where the micro-batch that ends here began, where that is not the end of the one before."""


class CategoryRange(NamedTuple):
    """The events of a category from the global position *start*, up to but without *end*."""

    category: str
    start: int
    end: int


def opening(starts: Mapping[str, int]) -> dict[str, CategoryPlace]:
    """Return the offset that a query begins with: Spark does not keep it, so the first end must."""
    return {category: CategoryPlace(start, start) for category, start in starts.items()}


def ended(before: CategoryPlace | None, end: int) -> CategoryPlace:
    """Return where a micro-batch ends in a category in which the one *before* has ended; None: it had not the category.

    >>> ended(CategoryPlace(3, 3), 17)
    CategoryPlace(next=17, begun=3)
    >>> ended(CategoryPlace(17, 3), 20)
    CategoryPlace(next=20, begun=None)
    """
    if before is None:
        return CategoryPlace(end, FIRST)
    return CategoryPlace(end, before.begun if before.begun == before.next else None)


def stretches_between(start: Mapping[str, CategoryPlace], end: Mapping[str, CategoryPlace]) -> list[CategoryRange]:
    """Return what a micro-batch reads."""
    if start == end:
        return []
    found = []
    for category, place in end.items():
        before = start[category].next if category in start else FIRST
        found.append(CategoryRange(category, before if place.begun is None else place.begun, place.next))
    return [stretch for stretch in found if stretch.start < stretch.end]


def encode_places(places: Mapping[str, CategoryPlace]) -> dict[str, Any]:
    """Return the offset that Spark keeps.

    >>> encode_places({"account": CategoryPlace(17, 3), "payment": CategoryPlace(12)})
    {'account': {'from': 3, 'next': 17}, 'payment': 12}
    """
    return {
        category: place.next if place.begun is None else {"from": place.begun, "next": place.next}
        for category, place in places.items()
    }


def decode_places(given: Mapping[str, Any]) -> dict[str, CategoryPlace]:
    """Read an offset that Spark has kept.

    Raises:
        BadParameter: it is not one of ours.
    """
    try:
        return {
            category: CategoryPlace(int(place["next"]), int(place["from"]))
            if isinstance(place, dict)
            else CategoryPlace(int(place))
            for category, place in given.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadParameter(
            f"the checkpoint holds an offset that is not one of format('messagedb'): {given!r}",
            parameter="offset",
            value=given,
            allowed='offsets such as {"account": 17}',
        ) from None
