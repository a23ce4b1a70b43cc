"""Takes batches from a stream of a subscription and lands them, for the driver of a query."""

import logging
import re
import time
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from penstock.errors import Unavailable
from penstock.spark.landing import Landing, new_landing
from penstock.spark.nakadi.cursors import NakadiPartition, is_before
from penstock.spark.nakadi.goal import Goal
from penstock.spark.nakadi.landed import LandedCursors
from penstock.spark.nakadi.micro_batch import SubscriptionMicroBatch
from penstock.spark.nakadi.options import SubscriptionOptions
from penstock.spark.nakadi.pages import LandingPages
from penstock.spark.nakadi.subscribed import SubscriptionReader
from penstock.spark.options import bad_option
from penstock.spark.patience import Patience
from penstock.wire.subscriptions import BatchLine

WAIT_SECONDS: Final = 2.0
"""So long a micro-batch is gathered. A batch of Nakadi's that is not full comes after one second."""
LINGER_SECONDS: Final = 0.2
"""So long it waits for more, once there is something."""
_SKIPPED: Final = re.compile(r"skipped events due to retention time passed, count: (\d+)", re.ASCII)
_log: Final = logging.getLogger("penstock.spark")


class SubscriptionIntake:
    """What the driver of a query does from its start, or restart, to its end: a *run*."""

    def __init__(
        self,
        options: SubscriptionOptions,
        subscribed: SubscriptionReader | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._subscribed = subscribed or SubscriptionReader(options)
        self._clock = clock
        self._run = uuid4().hex[:12]
        self._goal: Goal | None = None
        self._offered: tuple[LandedCursors, LandedCursors] | None = None
        self._left: set[str] | None = None
        """The runs before this one that have pages; None: it has not been looked which."""
        self._before: LandedCursors | None = None
        """Where the last micro-batch began that Spark has committed, as far as this run knows."""

    def begin(self) -> LandedCursors:
        """Return the offset that a new query begins with: a landing of its own, without pages."""
        return LandedCursors(self._subscribed.id, new_landing(self._options.landing_location).id, self._run, 0, {})

    def aim(self) -> None:
        """Note where partitions end now: the query is to end there, whatever else comes."""
        self._goal = Goal(self._subscribed.ends())

    def advance(self, start: LandedCursors, most: int | None) -> LandedCursors:
        """Land what follows *start*, up to *most* events, and return where that ends.

        All up to *start* is committed by Spark, or it would not ask: so it is committed now.

        Raises:
            BadParameter: *start* is of another subscription.
            EventsLost: events are gone, and that is to fail.
            PenstockError: the server refuses what it is asked, or has not answered for too long.
        """
        self._check(start)
        self.commit(start)
        if self._offered is not None and self._offered[0] == start:
            return self._offered[1]
        self._forget(start)
        batch = SubscriptionMicroBatch(start, self._run, self._pages(start), self._options.url)
        if most is None and self._goal is None:
            self._gather(batch, None, Goal(self._subscribed.ends()))
            self._subscribed.close()  # What is beyond the goal was passed over.
        else:
            self._gather(batch, most, self._goal)
        end = batch.end()
        self._offered = None if end == start else (start, end)
        return end

    def commit(self, landed: LandedCursors) -> None:
        """Tell Nakadi how far Spark has come."""
        self._subscribed.commit(landed.cursors)

    def close(self) -> None:
        """Close the stream. What Spark has not committed stays uncommitted."""
        self._subscribed.close()

    def _gather(self, batch: SubscriptionMicroBatch, most: int | None, goal: Goal | None) -> None:
        """Land what comes, until there is nothing more for now; with a *goal*, until that is come to."""
        self._ready(batch, goal)
        patience, deadline = Patience(self._options.retry_timeout), self._clock() + WAIT_SECONDS
        while goal is None or goal.missing:
            line = self._next(batch, goal, deadline - self._clock())
            if line is not None and not _has_room(batch, line, most):
                self._subscribed.put_back(line)
                return
            if line is not None:
                self._take(batch, line, goal)
            if line is not None and line.events:
                patience.reset()
                deadline = deadline if goal is None else self._clock() + WAIT_SECONDS
            elif line is None or self._clock() >= deadline:  # Signs of life do not count.
                if goal is None or batch.events:
                    return
                self._wait(batch, goal, patience)
                deadline = self._clock() + WAIT_SECONDS

    def _ready(self, batch: SubscriptionMicroBatch, goal: Goal | None) -> None:
        """Have a stream open, and the *goal* know how far it is."""
        if not self._subscribed.is_open:
            stands = self._subscribed.open(batch.start.cursors)
        elif goal is not None and goal is not self._goal:
            stands = self._subscribed.committed()
        else:
            stands = {}
        if goal is not None:
            goal.see(batch.start.cursors)
            goal.see(stands)

    def _next(self, batch: SubscriptionMicroBatch, goal: Goal | None, left: float) -> BatchLine | None:
        if left <= 0 or not self._subscribed.is_open:
            return None
        return self._subscribed.take(min(LINGER_SECONDS, left) if goal is None and batch.events else left)

    def _wait(self, batch: SubscriptionMicroBatch, goal: Goal, patience: Patience) -> None:
        """Look whether others have come to the goal: consumers, or Nakadi itself, where there is nothing to deliver."""
        if not self._subscribed.is_open:
            goal.see(self._subscribed.open(batch.start.cursors))
        else:
            goal.see(self._subscribed.committed())
        if goal.missing:
            missing = ", ".join(f"{offset} in {place}" for place, offset in goal.missing.items())
            patience.endure(Unavailable(f"subscription {self._subscribed.id}: nothing comes, up to {missing}"))

    def _take(self, batch: SubscriptionMicroBatch, line: BatchLine, goal: Goal | None) -> None:
        cursor = line.cursor
        place = NakadiPartition(cursor.event_type, cursor.partition)
        if skipped := _SKIPPED.search(line.debug or ""):
            self._subscribed.report_loss(place, int(skipped[1]), "retention has removed them")
        if goal is not None and goal.has(place):
            return
        if line.events and not is_before(batch.stands(place), cursor.offset):
            _log.warning("%s: what ends with %s has come again, and is passed over", place, cursor.offset)
            return
        if line.events:
            batch.add(line)
        batch.see(place, cursor.offset)
        self._subscribed.note(cursor)
        if goal is not None:
            goal.see({place: cursor.offset})

    def _pages(self, start: LandedCursors) -> LandingPages:
        first = start.page if start.run == self._run else 0
        return LandingPages(self._landing(start), self._run, first)

    def _landing(self, landed: LandedCursors) -> Landing:
        return Landing(self._options.landing_location, landed.landing)

    def _check(self, start: LandedCursors) -> None:
        if start.subscription != self._subscribed.id:
            allowed = f"{start.subscription}, whose cursors the checkpoint has; for another one, another checkpoint"
            raise bad_option("subscription", self._subscribed.id, allowed)

    def _forget(self, start: LandedCursors) -> None:
        """Forget the pages of micro-batches before the last one: no query is run again from so far back.

        With the first one of this run go the pages of all runs before; not those of one that has begun since: were this
        one taken for dead, that is its heir.
        """
        landing = self._landing(start)
        before, self._before = self._before, start
        if self._left is None:
            self._left = landing.lanes()
        if before is not None and before.run == start.run and before != start:
            landing.forget(start.run, before.page)
        if start.run == self._run and self._left:
            landing.forget_lanes(self._left)
            self._left = set()


def _has_room(batch: SubscriptionMicroBatch, line: BatchLine, most: int | None) -> bool:
    """Tell whether the events of *line* fit into *batch*; the first ones always do."""
    return most is None or not batch.events or batch.events + len(line.events or ()) <= most
