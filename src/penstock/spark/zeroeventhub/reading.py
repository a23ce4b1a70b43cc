"""Reads partitions of a feed from afar to where they end, on an executor."""

from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa

from penstock.spark.zeroeventhub.ends import Ends
from penstock.spark.zeroeventhub.options import RemoteOptions
from penstock.spark.zeroeventhub.remote import RemoteFeed
from penstock.spark.zeroeventhub.rows import to_batches


def read_partitions(options: RemoteOptions, cursors: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
    """Read partitions from *cursors*, and those that follow from them, each to where a page brings nothing new.

    Raises:
        EventsLost: the server refuses a cursor, and that is to fail.
        PenstockError: the server refuses what it is asked, or has not answered for too long.
    """
    feed, ends = RemoteFeed(options), Ends(options)
    course = feed.course(cursors, cursors.keys())
    numbers: Counter[int] = Counter()
    done: set[int] = set()
    while left := [number for number in course.list_readable() if number not in done]:
        number = left[0]
        page = feed.page(course, number, size=options.page_size_hint)
        if page is None:
            feed.meet_again(course)
            continue
        course.record(page.since, page)
        yield from to_batches(page.events, number, numbers[number], options.url)
        numbers[number] += len(page.events)
        if ends.is_end(number, page):
            done.add(number)
