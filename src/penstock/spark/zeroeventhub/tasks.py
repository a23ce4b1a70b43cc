"""What Spark's tasks are given and do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from penstock.spark.columns import QueryColumn
from penstock.spark.landing import Landing
from penstock.spark.shape import selected
from penstock.spark.zeroeventhub.options import RemoteOptions
from penstock.spark.zeroeventhub.places import LandedPlaces, PageRange, stretches_between
from penstock.spark.zeroeventhub.reading import read_partitions
from penstock.spark.zeroeventhub.remote import RemoteFeed


class Task(NamedTuple):
    """Landed pages that are read in one task."""

    landing: Landing
    stretch: PageRange


def plan_micro_batch(options: RemoteOptions, start: LandedPlaces, end: LandedPlaces, cores: int) -> list[Task]:
    """Return what each task of a micro-batch reads: each page once; the same whatever the server has to say by now."""
    assert options.landing_location is not None
    landing = Landing(options.landing_location, end.landing)
    return [Task(landing, piece) for piece in cut(stretches_between(start, end), cores)]


def cut(stretches: Sequence[PageRange], cores: int) -> list[PageRange]:
    """Cut *stretches* into about as many pieces as there are cores.

    >>> [(each.lane, each.start, each.end) for each in cut([PageRange("r/0", 3, 9), PageRange("r/1", 0, 2)], 4)]
    [('r/0', 3, 5), ('r/0', 5, 7), ('r/0', 7, 9), ('r/1', 0, 2)]
    """
    pages = -(-sum(each.end - each.start for each in stretches) // cores)
    return [
        each._replace(start=start, end=min(start + pages, each.end))
        for each in stretches
        for start in range(each.start, each.end, max(pages, 1))
    ]


def read_task(columns: Sequence[QueryColumn], task: Task) -> Iterator[pa.RecordBatch]:
    """Read what one task of a micro-batch was given, in the columns that the query wants.

    Raises:
        EventsLost: a page is not there.
    """
    lane, start, end = task.stretch
    for page in range(start, end):
        for rows in task.landing.read(lane, page):
            yield selected(rows, columns)


def plan_batch(options: RemoteOptions) -> list[dict[int, str]]:
    """Return where the tasks of a batch begin: the cursors of a partition, and of those that start after it.

    Raises:
        BadParameter: startingCursors name others than the feed has.
        PenstockError: what the server answers, or that it has not answered for too long.
    """
    course = RemoteFeed(options).course({})
    parents = {each.id: each.starts_after for each in course.discovery.partitions}
    found: dict[int, dict[int, str]] = {}
    for number, cursor in course.cursors.items():
        found.setdefault(_first(number, parents), {})[number] = cursor
    return list(found.values())


def _first(number: int, parents: Mapping[int, int | None]) -> int:
    """Return the partition after which, at first, *number* starts; itself, if after none that is there."""
    parent = parents[number]
    return number if parent is None or parent not in parents else _first(parent, parents)


def read_batch(
    options: RemoteOptions, columns: Sequence[QueryColumn], cursors: Mapping[int, str]
) -> Iterator[pa.RecordBatch]:
    """Read what one task of a batch was given: partitions from their cursors on.

    Raises:
        EventsLost, PenstockError: see `read_partitions`.
    """
    return (selected(rows, columns) for rows in read_partitions(options, cursors))
