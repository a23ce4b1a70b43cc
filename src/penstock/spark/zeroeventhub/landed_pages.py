"""The pages of one run of a query, which land one after the other in each partition."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.spark.landing import Landing
from penstock.spark.zeroeventhub.places import LandedPlaces, PartitionPlace, lane
from penstock.spark.zeroeventhub.rows import to_batches
from penstock.wire.log.reader.pages import FeedEvent


@dataclass(frozen=True)
class LandedPages:
    """Where pages land."""

    landing: Landing
    run: str

    def add(
        self, partition: int, place: PartitionPlace, events: Sequence[FeedEvent], cursor: str, url: str
    ) -> PartitionPlace:
        """Land *events* at *place*, and return the place behind them, where *cursor* leads on.

        Raises:
            MalformedAnswer: they are none that Spark could take; *url* has sent them.
        """
        batches = list(to_batches(events, partition, place.number, url))
        self.landing.write(lane(self.run, partition), place.page, batches)
        return PartitionPlace(place.page + 1, place.number + len(events), cursor)

    def forget(self, landed: LandedPlaces) -> None:
        """Delete the pages below those places."""
        for partition, place in landed.partitions.items():
            self.landing.forget(lane(self.run, partition), place.page)
