"""What Spark's tasks are given and do."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.spark.columns import QueryColumn
from penstock.spark.messagedb.batches import plan
from penstock.spark.messagedb.database import MessageDatabase
from penstock.spark.messagedb.options import CategoryOptions, end_of, start_of
from penstock.spark.messagedb.places import CategoryRange
from penstock.spark.messagedb.reading import read_stretch
from penstock.spark.tasks import cores


def database_of(options: CategoryOptions) -> MessageDatabase:
    """Return the database that *options* name."""
    return MessageDatabase(options.url, options.schema, options.retry_timeout)


def plan_batch(options: CategoryOptions) -> list[tuple[CategoryRange, ...]]:
    """Look where the categories end, and return what each task of a batch reads.

    Raises:
        BadParameter: MessageDB is not there.
        DatabaseUnavailable: the database has not answered for too long.
    """
    with database_of(options) as database:
        stretches = [
            CategoryRange(category, start_of(options, category, head), end_of(options, category, head))
            for category, head in database.heads(options.categories).items()
        ]
        return plan_stretches(options, [each for each in stretches if each.start < each.end], database)


def plan_stretches(
    options: CategoryOptions, stretches: Sequence[CategoryRange], database: MessageDatabase
) -> list[tuple[CategoryRange, ...]]:
    """Return what each task reads of *stretches*, as *options* would have it."""
    return plan(stretches, min_tasks=options.min_partitions, cores=cores(), store=database)


def read_task(
    options: CategoryOptions, columns: Sequence[QueryColumn], stretches: Sequence[CategoryRange]
) -> Iterator[pa.RecordBatch]:
    """Read what one task was given, in the columns that the query wants.

    Raises:
        DatabaseUnavailable: the database has not answered for too long.
    """
    with database_of(options) as database:
        for stretch in stretches:
            yield from read_stretch(database, stretch, columns)
