"""Lands the pages of one micro-batch."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

from penstock.core.log.cursor import LAST
from penstock.spark.zeroeventhub.ends import Ends
from penstock.spark.zeroeventhub.landed_pages import LandedPages
from penstock.spark.zeroeventhub.micro_batch import FeedMicroBatch
from penstock.spark.zeroeventhub.options import RemoteOptions
from penstock.spark.zeroeventhub.places import PartitionPlace
from penstock.spark.zeroeventhub.remote import RemoteFeed
from penstock.wire.log.reader.pages import Page

THREADS: Final = 8
"""So many partitions are read at once."""
GATHER_SECONDS: Final = 5.0
"""So long pages are gathered, if they come all the time: then Spark is to have what there is."""


class PartitionAnswer(NamedTuple):
    """What has come of asking one partition."""

    place: PartitionPlace
    """Behind what has landed."""
    page: Page


class Gathering:
    """Asks the partitions of a micro-batch in rounds, each for one page, until there is enough or nothing more.

    Args:
        options: Of the query.
        feed: What is asked.
        pages: Where pages land.
        batch: The micro-batch.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        options: RemoteOptions,
        feed: RemoteFeed,
        pages: LandedPages,
        *,
        batch: FeedMicroBatch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._feed = feed
        self._pages = pages
        self._batch = batch
        self._clock = clock
        self._ends = Ends(options)
        self.ended: set[int] = set()
        """Partitions that have nothing more for now."""

    def run(self, wait_seconds: float, *, to_end: bool) -> bool:
        """Gather; where a partition has nothing, the server may wait for so many seconds.

        *to_end*: however long it takes until something comes. Returns False where the partitions have changed; then the
        micro-batch is what had landed before.
        """
        batch, deadline = self._batch, self._clock() + GATHER_SECONDS
        with ThreadPoolExecutor(THREADS) as pool:
            while not batch.is_enough:
                if self._clock() > deadline and batch.is_bounded and (batch.events or not to_end):
                    return True
                asked, size = batch.turn(self._options.page_size_hint)
                ask = partial(self._ask, size=size, wait_seconds=wait_seconds if len(asked) <= THREADS else 0.0)
                have_changed = False
                for partition, answer in zip(asked, pool.map(ask, asked), strict=True):  # None is kept for longer.
                    if answer is None:
                        have_changed = True
                    else:
                        self._note(partition, answer)
                if have_changed:
                    self._feed.meet_again(batch.course)
                    return False
        return True

    def _ask(self, partition: int, *, size: int, wait_seconds: float) -> PartitionAnswer | None:
        """Land the next page of a partition; in a thread. None: the partitions have changed."""
        course, place = self._batch.course, self._batch.places[partition]
        # A place comes before a wait: were the connection to break in the wait, `_last` would mean a later end.
        wait_seconds = 0.0 if course.cursors[partition] == LAST else wait_seconds
        page = self._feed.page(course, partition, size=size, wait_seconds=wait_seconds)
        if page is None:
            return None
        if page.events:
            place = self._pages.add(partition, place, page.events, page.cursors[partition], self._options.url)
        return PartitionAnswer(place, page)

    def _note(self, partition: int, answer: PartitionAnswer) -> None:
        course = self._batch.course
        self._batch.take(partition, answer.place)
        course.record(answer.page.since, answer.page)
        if self._ends.is_end(partition, answer.page):
            self._batch.leave(partition)
            self.ended.add(partition)
