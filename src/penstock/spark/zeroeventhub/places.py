"""Spark's offsets: readable JSON, and the places in landed partitions that it stands for.

    {"landing": "6f1c…", "run": "a40b…", "partitions": {"0": {"page": 17, "number": 48213, "cursor": "…"}}}

is where a micro-batch ends: of each partition, which page is to land next, which number its first event has, and from
which cursor it is asked for. Each run of a query, from its start to its end, lands pages of its own: so a driver that
was taken for dead cannot replace those of the one that has taken over.

Spark keeps where each micro-batch ends, and takes it that the next begins there. Where the first one of a query began,
Spark forgets, and has another landing made up for it: then it begins with the first page of each partition.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.errors import BadParameter


class PartitionPlace(NamedTuple):
    """A place in one partition."""

    page: int
    """The page of the run that is to land next; those below it have landed."""
    number: int
    """Of the next event: so many came before it."""
    cursor: str
    """What to ask for."""


class LandedPlaces(NamedTuple):
    """Where a micro-batch ends."""

    landing: str
    """The id of the query's landing."""
    run: str
    """The id of the run whose pages these are."""
    partitions: Mapping[int, PartitionPlace]

    def of_run(self, run: str) -> "LandedPlaces":
        """Return the same place for a *run* that goes on there: one that is another has no pages yet."""
        if run == self.run:
            return self
        return LandedPlaces(self.landing, run, {number: at._replace(page=0) for number, at in self.partitions.items()})


class PageRange(NamedTuple):
    """Pages of a partition from *start*, up to but without *end*."""

    lane: str
    start: int
    end: int


def lane(run: str, partition: int) -> str:
    """Return the lane of a landing in which a run's pages of a partition are."""
    return f"{run}/{partition}"


def stretches_between(start: LandedPlaces, end: LandedPlaces) -> list[PageRange]:
    """Return what a micro-batch reads: the first one of a run begins with the run's first pages."""
    begins = start.of_run(end.run).partitions if start.landing == end.landing else {}
    found = [
        PageRange(lane(end.run, partition), begins[partition].page if partition in begins else 0, place.page)
        for partition, place in end.partitions.items()
    ]
    return [stretch for stretch in found if stretch.start < stretch.end]


def encode_landed(landed: LandedPlaces) -> dict[str, Any]:
    """Return the offset that Spark keeps.

    >>> encode_landed(LandedPlaces("6f1c", "a40b", {0: PartitionPlace(17, 48213, "a7")}))
    {'landing': '6f1c', 'run': 'a40b', 'partitions': {'0': {'page': 17, 'number': 48213, 'cursor': 'a7'}}}
    """
    return {
        "landing": landed.landing,
        "run": landed.run,
        "partitions": {str(partition): place._asdict() for partition, place in sorted(landed.partitions.items())},
    }


def decode_landed(given: Mapping[str, Any]) -> LandedPlaces:
    """Read an offset that Spark has kept.

    Raises:
        BadParameter: it is not one of ours.
    """
    try:
        places = {
            int(partition): PartitionPlace(int(place["page"]), int(place["number"]), str(place["cursor"]))
            for partition, place in given["partitions"].items()
        }
        return LandedPlaces(str(given["landing"]), str(given["run"]), places)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadParameter(
            f"the checkpoint holds an offset that is not one of format('zeroeventhub'): {given!r}",
            parameter="offset",
            value=given,
            allowed='such as {"landing": "6f1c…", "run": "a40b…", "partitions": {"0": {"page": 17, …}}}',
        ) from None
