"""A micro-batch that is being gathered: what of a stream is landed for it."""

import msgspec

from penstock.errors import MalformedAnswer
from penstock.spark.nakadi.cursors import NakadiPartition, advanced
from penstock.spark.nakadi.landed import LandedCursors
from penstock.spark.nakadi.pages import LandingPages
from penstock.spark.nakadi.rows import to_rows
from penstock.wire.subscriptions import BatchLine


class SubscriptionMicroBatch:
    """What follows *start*, in pages of *run*, where the next page has the number *first*.

    Args:
        start: Where the micro-batch before has ended.
        run: The lane of the pages.
        pages: Where they are landed.
        url: Whence the lines come, for errors.
    """

    def __init__(self, start: LandedCursors, run: str, pages: LandingPages, url: str) -> None:
        self.start = start
        self.events = 0
        self._run = run
        self._pages = pages
        self._url = url
        self._cursors = dict(start.cursors)

    def stands(self, place: NakadiPartition) -> str | None:
        """Return behind which event it stands in a partition; None: nothing was heard of it."""
        return self._cursors.get(place)

    def see(self, place: NakadiPartition, offset: str) -> None:
        """Take note that a stream has nothing more up to *offset*."""
        self._cursors = advanced(self._cursors, {place: offset})

    def add(self, line: BatchLine) -> None:
        """Land the events of *line*.

        Raises:
            MalformedAnswer: one of them is no JSON object.
        """
        try:
            rows = to_rows(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MalformedAnswer(url=self._url, reason=f"an event is no JSON object: {error}") from error
        self._pages.add(rows)
        self.events += rows.num_rows

    def end(self) -> LandedCursors:
        """Land what is left, and return where the micro-batch ends: at its start, if nothing has come."""
        if not self.events:
            return self.start
        return self.start._replace(run=self._run, page=self._pages.close(), cursors=self._cursors)
