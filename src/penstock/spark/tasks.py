"""Plans the tasks of a batch by the options of a query, and reads the range of one task."""

import os
from collections.abc import Iterator

import pyarrow as pa

from penstock.spark.columns import QueryColumn
from penstock.spark.connection import RemoteHub
from penstock.spark.heads import at_offsets, beginning, ending
from penstock.spark.options import SourceOptions
from penstock.spark.patience import Patience
from penstock.spark.planning import Range, plan_tasks, ranges_between
from penstock.spark.reading import PageSource, read_range
from penstock.spark.shape import Shape


def plan_batch(options: SourceOptions) -> list[tuple[Range, ...]]:
    """Look where the feeds begin and end, and return what each task of a batch reads.

    Raises:
        BadParameter: the options name offsets that do not exist.
        EventsLost: they name events that are gone, and that is to fail.
        PenstockError: what the hub answers, or that it has not answered for too long.
    """
    hub = RemoteHub(options.url, options.retry_timeout, options.credential)
    heads = {event_type: hub.heads(event_type) for event_type in options.event_types}
    first, last = (
        at_offsets(asked, options.event_types, hub.since)
        for asked in (options.starting_offsets or "earliest", options.ending_offsets)
    )
    starts = beginning(first, heads, fail_on_loss=options.fail_on_data_loss)
    ends = ending(last, starts, heads)
    return plan_tasks(
        ranges_between(starts, ends),
        min_tasks=options.min_partitions,
        cores=cores(),
        splits=options.split_partitions,
    )


def read_task(
    options: SourceOptions, columns: tuple[QueryColumn, ...], ranges: tuple[Range, ...]
) -> Iterator[pa.RecordBatch]:
    """Read what one task was given, in the columns that the query wants.

    Raises:
        PenstockError: see `read_range`.
    """
    hub = RemoteHub(options.url, options.retry_timeout, options.credential)
    pages: PageSource = hub
    if options.cold_tier is not None:
        from penstock.spark.cold import ColdPages

        pages = ColdPages(hub, hub.cold_files, options.cold_tier, columns)
    shape = Shape(columns)
    for wanted in ranges:
        patience = Patience(options.retry_timeout)
        for batch in read_range(
            pages,
            wanted,
            patience,
            fail_on_loss=options.fail_on_data_loss,
            with_headers=options.include_headers,
        ):
            yield shape(batch, wanted.event_type)


def cores() -> int:
    """Return the number of tasks that this machine can run at once. A source does not know that of a cluster."""
    return os.cpu_count() or 1
