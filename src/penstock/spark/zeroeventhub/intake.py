"""Takes pages from a feed and lands them, for the driver of a query."""

import time
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from penstock.core.log.cursor import FIRST
from penstock.spark.checkpoint import tell_beginning
from penstock.spark.landing import Landing, new_landing
from penstock.spark.options import bad_option
from penstock.spark.zeroeventhub.gathering import Gathering
from penstock.spark.zeroeventhub.landed_pages import LandedPages
from penstock.spark.zeroeventhub.micro_batch import FeedMicroBatch
from penstock.spark.zeroeventhub.options import RemoteOptions
from penstock.spark.zeroeventhub.places import LandedPlaces
from penstock.spark.zeroeventhub.remote import RemoteFeed
from penstock.wire.log.reader.partitions import ReadState

POLL_INTERVAL: Final = 1.0
"""The least time between two looks that bring nothing. As long a server that knows how is asked to wait."""


class FeedIntake:
    """What the driver of a query does from its start, or restart, to its end: a *run*."""

    def __init__(
        self,
        options: RemoteOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._feed = RemoteFeed(options)
        self._run = uuid4().hex[:12]
        self._ends_there = False
        """Whether the query is to end where the partitions do."""
        self._ended: set[int] = set()
        """Partitions that have been read to their end, where that is the query's."""
        self._beyond: tuple[LandedPlaces, dict[int, str]] | None = None
        """An offset, and the cursors to which pages without events have led from there."""
        self._looked = -POLL_INTERVAL
        """When it began to look the last time."""
        self._checked = False
        """Whether the checkpoint has been held against the options."""
        self._left: set[str] | None = None
        """The runs before this one that have pages; None: it has not been looked which."""

    def begin(self) -> LandedPlaces:
        """Return the offset that a new query begins with: a landing of its own, without pages."""
        return LandedPlaces(new_landing(self._location).id, self._run, {})

    def end_where_partitions_do(self) -> None:
        """Read each partition until it has nothing new, and then no more."""
        self._ends_there = True
        self._ended = set()

    def advance(self, start: LandedPlaces, events_max: int | None) -> LandedPlaces:
        """Land what follows *start*, about *events_max* events, and return where that ends; *start*: there is nothing.

        Raises:
            BadParameter: the options do not fit the feed, or *start*.
            EventsLost: the server refuses a cursor, and that is to fail.
            PenstockError: the server refuses what it is asked, or has not answered for too long.
        """
        if self._left is None:
            self._left = self._landing(start).lanes()
        wait_seconds = self._rest(start)
        course = self._course(start)
        while True:
            batch = FeedMicroBatch(start.of_run(self._run), course, self._ended, events_max)
            gathering = Gathering(self._options, self._feed, self._pages(start), batch=batch, clock=self._clock)
            is_over = gathering.run(wait_seconds, to_end=self._ends_there)
            if self._ends_there:
                self._ended |= gathering.ended
            # Where a query ends soon, the next one is not to begin before pages that have led on for long.
            if batch.is_news or (self._ends_there and batch.has_moved):
                self._beyond = None
                return batch.end()
            self._beyond = (start, dict(course.cursors))
            left = set(course.list_readable()) - batch.places.keys() - self._ended
            if is_over and not left:
                return start

    def forget(self, before: LandedPlaces, end: LandedPlaces) -> None:
        """Delete the pages before the micro-batch from *before* to *end*, which Spark has committed.

        Its own stay, should Spark run it again. With the first one of this run go the pages of all runs before; not
        those of one that has begun since: were this one taken for dead, that is its heir.
        """
        landing = self._landing(end)
        if before.run == end.run:
            LandedPages(landing, end.run).forget(before)
        if end.run == self._run and self._left:
            landing.forget_lanes(self._left)
            self._left = set()

    def _rest(self, start: LandedPlaces) -> float:
        """Let time pass where the last look from *start* brought nothing; return how long the server may wait."""
        is_idle = self._beyond is not None and self._beyond[0] == start and not self._ends_there
        if is_idle:
            self._sleep(max(0.0, self._looked + POLL_INTERVAL - self._clock()))
        self._looked = self._clock()
        return POLL_INTERVAL if is_idle else 0.0

    def _course(self, start: LandedPlaces) -> ReadState:
        cursors = {number: place.cursor for number, place in start.partitions.items()}
        if self._beyond is not None and self._beyond[0] == start:
            cursors = self._beyond[1]
        course = self._feed.course(cursors)
        if not self._checked:
            self._check(start, course)
            self._checked = True
        return course

    def _check(self, start: LandedPlaces, course: ReadState) -> None:
        """Hold a checkpoint against the options; a new query has none."""
        if not start.partitions:
            return
        count = len(start.partitions)
        if course.discovery.version == 1 and course.discovery.partition_count != count:
            allowed = f"{count}, as in the checkpoint; for another number of partitions, another checkpoint"
            raise bad_option("partitionCount", course.discovery.partition_count, allowed)
        if self._options.starting_cursors != FIRST:
            tell_beginning("startingCursors")

    def _pages(self, landed: LandedPlaces) -> LandedPages:
        return LandedPages(self._landing(landed), self._run)

    def _landing(self, landed: LandedPlaces) -> Landing:
        return Landing(self._location, landed.landing)

    @property
    def _location(self) -> str:
        assert self._options.landing_location is not None
        return self._options.landing_location
