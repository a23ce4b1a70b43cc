"""Which partitions a reader reads: its share of them, and its course as they close, split and take over.

FeedAPI has two ways to change the partitions of a feed that is being read:

    startsAfterPartition    the parent is closed; its children begin where it ends, so it is read to its end first
    cursorFromPartitions    the parent is gone; its children hold its history too, and its cursor is good for each

Invariants:
    A child that starts after a partition of the same reader is not read before that one's end.
    A cursor that was handed in is dropped only when its partition is no longer there, and after its heirs have it.
"""

from collections.abc import Collection, Mapping

from penstock.core.log.cursor import FIRST
from penstock.errors import BadParameter
from penstock.wire.reader.discovery import Discovery, Partition
from penstock.wire.reader.page import Page


def share(partition_count: int, workers: int, worker: int) -> range:
    """Return the contiguous range of partitions that *worker*, counted from 0, reads of *partition_count*.

    The ranges of all workers cover each partition once. They are of equal size where the count allows it, and differ by
    one otherwise; publishers can make such reads cheap.

    >>> [list(share(8, 4, worker)) for worker in range(4)]
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    """
    if workers < 1:
        raise BadParameter(parameter="workers", value=workers, allowed="at least 1")
    if not 0 <= worker < workers:
        raise BadParameter(parameter="worker", value=worker, allowed=f"0 to {workers - 1}, of {workers}")
    return range(partition_count * worker // workers, partition_count * (worker + 1) // workers)


class Course:
    """What one reader reads next.

    Args:
        cursors: Where it has come to, by partition.
        chosen: The partitions that it reads, with all that follow from them; None for the whole feed.
        start: The cursor of a partition that it reads for the first time, when *cursors* is empty; a partition that
            appears later is read from its beginning.
        ends: Partition to the cursor at which it is known to end, shared by the readers of one feed.
    """

    discovery: Discovery
    """The state of the partitions that it has met last."""

    def __init__(
        self, cursors: Mapping[int, str], chosen: Collection[int] | None, start: str, ends: dict[int, str]
    ) -> None:
        self.cursors = dict(cursors)
        self.stale_count = 0
        """How often in a row the partitions had changed when they were read."""
        self._chosen = None if chosen is None else set(chosen)
        self._start = start if not cursors else FIRST
        self._ends = ends
        self._partitions: dict[int, Partition] = {}

    def meet(self, discovery: Discovery) -> None:
        """Take over cursors from partitions that are gone, and take up those that are new.

        Raises:
            BadParameter: nothing of what was chosen is there.
        """
        before = self.cursors
        self.discovery = discovery
        self._partitions = {partition.id: partition for partition in discovery.partitions}
        self.cursors = {}
        self._choose_heirs(discovery)
        for partition in discovery.partitions:
            if cursor := self._cursor_for(partition, before):
                self.cursors[partition.id] = cursor
        if not self.cursors:
            asked = sorted(self._chosen if self._chosen is not None else before)
            raise BadParameter(parameter="partitions", value=asked, allowed=f"those of the feed, {discovery.ids}")
        self._start = FIRST

    def readable(self) -> list[int]:
        """Return the partitions that can bring something now, in the feed's order."""
        return [number for number in self.cursors if not self._has_ended(number) and not self._waits(number)]

    def record(self, asked: Mapping[int, str], page: Page) -> None:
        """Take note of what came of reading with the cursors *asked*."""
        self.cursors.update(page.cursors)
        if page.events:
            return
        for number, cursor in asked.items():
            # A filter can leave an answer empty half-way: only a cursor that stays where it was tells the end.
            if self._partitions[number].closed and page.cursors.get(number) == cursor:
                self._ends[number] = cursor

    def _choose_heirs(self, discovery: Discovery) -> None:
        """Add to what was chosen all that follows from it."""
        if self._chosen is None:
            return
        size = -1
        while size != len(self._chosen):
            size = len(self._chosen)
            for partition in discovery.partitions:
                if partition.starts_after in self._chosen or not self._chosen.isdisjoint(partition.cursor_from):
                    self._chosen.add(partition.id)

    def _cursor_for(self, partition: Partition, before: Mapping[int, str]) -> str | None:
        chosen = before if self._chosen is None else before.keys() & self._chosen
        if self._chosen is not None and partition.id not in self._chosen:
            return None
        source = next((number for number in (partition.id, *partition.cursor_from) if number in chosen), None)
        return self._start if source is None else before[source]

    def _has_ended(self, number: int) -> bool:
        return number in self._ends and self._ends[number] == self.cursors[number]

    def _waits(self, number: int) -> bool:
        parent = self._partitions[number].starts_after
        return parent is not None and parent in self.cursors and not self._has_ended(parent)
