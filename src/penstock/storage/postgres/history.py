"""The log positions of the primary that one process has seen: a replica must reach them before it serves a reader."""

import threading
from collections.abc import Iterable
from typing import Any

from penstock.storage.log.events import PartitionHead


class PrimaryHistory:
    """The newest timeline and removals that this process has seen with heads of partitions.

    Every range that a reader asks for follows from heads that this process has read. So a standby on this timeline has
    the same events in the range, whatever has become of the primary since: docs/decisions/read-replicas.md.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.timeline = 0
        """The timeline of the primary; 0 before the first heads."""
        self._removals: dict[int, int] = {}

    def note(self, rows: Iterable[Any]) -> dict[int, PartitionHead]:
        """Return the heads of *rows*, which the statement `heads` has selected, after noting what they say."""
        heads: dict[int, PartitionHead] = {}
        timeline = self.timeline
        for partition_id, *rest, found in rows:
            head = heads[partition_id] = PartitionHead(*rest)
            if found is not None:
                timeline = max(timeline, int(found, 16))
            if head.removals > self._removals.get(partition_id, 0):
                with self._guard:
                    self._removals[partition_id] = max(head.removals, self._removals.get(partition_id, 0))
        if timeline > self.timeline:
            with self._guard:
                self.timeline = max(timeline, self.timeline)
        return heads

    def removals(self, partition_id: int) -> int:
        """Return the largest `PartitionHead.removals` of a partition that was noted."""
        return self._removals.get(partition_id, 0)
