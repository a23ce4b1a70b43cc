"""The offset of a stream: which pages are landed, and up to which cursors."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.errors import BadParameter
from penstock.spark.nakadi.cursors import Cursors, NakadiPartition


class LandedCursors(NamedTuple):
    """What is landed, as Spark keeps it."""

    subscription: str
    """Its id."""
    landing: str
    """The id of the query's landing."""
    run: str
    """The lane of the landing that the pages are in: each run of a query has its own."""
    page: int
    """The page wanted next."""
    cursors: Cursors
    """Behind the events that are landed, of the runs before, too."""


class PageName(NamedTuple):
    """Which page a task reads."""

    landing: str
    run: str
    number: int


def pages_between(start: LandedCursors, end: LandedCursors) -> list[PageName]:
    """Return what a micro-batch reads.

    The first micro-batch of a run begins with the run's first page; so does that of a query, whose beginning Spark does
    not keep.
    """
    is_same = (start.landing, start.run) == (end.landing, end.run)
    return [PageName(end.landing, end.run, number) for number in range(start.page if is_same else 0, end.page)]


def encode_landed(landed: LandedCursors) -> dict[str, Any]:
    """Return the offset that Spark keeps.

    >>> cursors = {NakadiPartition("a.b", "0"): "001-0001-000000000000000042"}
    >>> encode_landed(LandedCursors("s", "l", "r", 3, cursors))["cursors"]
    {'a.b': {'0': '001-0001-000000000000000042'}}
    """
    cursors: dict[str, dict[str, str]] = {}
    for place, offset in sorted(landed.cursors.items()):
        cursors.setdefault(place.event_type, {})[place.partition] = offset
    return {**landed._asdict(), "cursors": cursors}


def decode_landed(given: Mapping[str, Any]) -> LandedCursors:
    """Read an offset that Spark has kept.

    Raises:
        BadParameter: it is not one of ours.
    """
    try:
        cursors = {
            NakadiPartition(event_type, partition): str(offset)
            for event_type, offsets in given["cursors"].items()
            for partition, offset in offsets.items()
        }
        subscription, landing, run = (str(given[name]) for name in ("subscription", "landing", "run"))
        return LandedCursors(subscription, landing, run, int(given["page"]), cursors)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadParameter(
            f"the checkpoint holds an offset that is not one of format('nakadi'): {given!r}",
            parameter="offset",
            value=given,
            allowed='offsets such as {"page": 17, "cursors": {"order.placed": {"0": "001-0001-000000000000000042"}}}',
        ) from None
