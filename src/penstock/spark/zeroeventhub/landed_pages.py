"""The pages of one query, which land one after the other in each partition."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.spark.landing import Landing
from penstock.spark.zeroeventhub.places import Landed, Place
from penstock.spark.zeroeventhub.rows import to_batches
from penstock.wire.reader.page import FeedEvent


@dataclass(frozen=True)
class LandedPages:
    """Where pages land, and how they are known again."""

    landing: Landing
    asked: str
    """What is asked for beside cursors: a page that was asked for otherwise is not taken for one that has landed."""

    def add(self, partition: int, place: Place, events: Sequence[FeedEvent], cursor: str, url: str) -> Place:
        """Land *events* at *place*, and return the place behind them, where *cursor* leads on.

        Raises:
            MalformedAnswer: they are none that Spark could take; *url* has sent them.
        """
        after = Place(place.page + 1, place.number + len(events), cursor)
        note = {"asked": self.asked, "since": place.cursor, "number": str(after.number), "cursor": cursor}
        batches = list(to_batches(events, partition, place.number, url))
        self.landing.write(str(partition), place.page, batches, note)
        return after

    def found(self, partition: int, place: Place) -> Place | None:
        """Return the place behind the page that has landed at *place*; None: none has that would be asked for there."""
        note = self.landing.note(str(partition), place.page)
        if note is None or (note.get("asked"), note.get("since")) != (self.asked, place.cursor):
            return None
        return Place(place.page + 1, int(note["number"]), note["cursor"])

    def forget(self, landed: Landed) -> None:
        """Delete the pages below those places."""
        for partition, place in landed.partitions.items():
            self.landing.forget(str(partition), place.page)
