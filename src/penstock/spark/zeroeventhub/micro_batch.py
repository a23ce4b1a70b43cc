"""A micro-batch while its pages land: how far each partition has come, and which of them may bring more."""

from collections.abc import Iterable

from penstock.core.log.cursor import LAST
from penstock.spark.zeroeventhub.places import LandedPlaces, PartitionPlace
from penstock.wire.log.reader.partitions import ReadState


class FeedMicroBatch:
    """What follows *start*: pages of some partitions, up to *events_max* events, or as many as there are.

    Args:
        start: Where the micro-batch before has ended.
        course: What the reader reads next. Partitions that take over from others begin with the next micro-batch.
        done: Partitions that are not to be read.
        events_max: None for no limit.
    """

    def __init__(self, start: LandedPlaces, course: ReadState, done: Iterable[int], events_max: int | None) -> None:
        self.start = start
        self.course = course
        self.is_bounded = events_max is not None
        self._left = events_max
        self._unplaced = [number for number, cursor in course.cursors.items() if cursor == LAST]
        self.places = {number: self._at(number) for number in course.list_readable() if number not in set(done)}
        """Of the partitions that it reads."""
        self.hungry = list(self.places)
        """Those that may have more, in the order in which they are to be asked."""
        self.events = 0
        """How many it has."""

    def turn(self, size: int) -> tuple[list[int], int]:
        """Return whom to ask now, unless there is enough, and for how many events each: up to *size*."""
        if self._left is None:
            return list(self.hungry), size
        asked = self.hungry[: self._left]
        return asked, min(size, -(-self._left // len(asked)))

    def take(self, partition: int, place: PartitionPlace) -> None:
        """Take note that a page has landed, and leads to *place*; others are asked before this partition is again."""
        count = place.number - self.places[partition].number
        self.places[partition] = place
        self.events += count
        if self._left is not None:
            self._left -= count
        self.hungry.remove(partition)
        self.hungry.append(partition)

    def leave(self, partition: int) -> None:
        """Ask this partition no more."""
        self.hungry.remove(partition)

    @property
    def is_enough(self) -> bool:
        """Whether nobody is to be asked any more."""
        return not self.hungry or (self._left is not None and self._left <= 0)

    @property
    def is_news(self) -> bool:
        """Whether there is anything for Spark to keep: events, or where a partition ended that is read from there."""
        cursors = self.course.cursors
        return self.events > 0 or any(cursors.get(number, LAST) != LAST for number in self._unplaced)

    @property
    def has_moved(self) -> bool:
        """Whether pages without events have led on."""
        cursors = self.course.cursors
        return any(cursors.get(number, place.cursor) != place.cursor for number, place in self.places.items())

    def end(self) -> LandedPlaces:
        """Return where it ends. Partitions that are gone are in it if they have brought something."""
        places = {
            number: (self.places.get(number) or self._at(number))._replace(cursor=cursor)
            for number, cursor in self.course.cursors.items()
        }
        for number, place in self.places.items():
            if number not in places and place != self.start.partitions.get(number):
                places[number] = place
        return self.start._replace(partitions=places)

    def _at(self, partition: int) -> PartitionPlace:
        known = self.start.partitions.get(partition)
        return PartitionPlace(0, 0, self.course.cursors[partition]) if known is None else known
