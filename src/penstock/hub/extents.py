"""What the partitions have that somebody names in a list of positions."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.core.groups import Extent
from penstock.core.registry.definition import is_name
from penstock.core.registry.event_type import Feed
from penstock.errors import UnusablePosition
from penstock.storage.store import Head, Tx


class _Seen(NamedTuple):
    """A feed, and what its partitions had at one look."""

    feed: Feed
    heads: Mapping[int, Head]


class Extents:
    """What the partitions of feeds have; each feed is looked at once, when it is first named."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._seen: dict[str, _Seen | None] = {}

    def count(self, name: str) -> int:
        """Return how many partitions a feed has; 0: there is none of that name."""
        seen = self._look(name)
        return seen.feed.partition_count if seen else 0

    def at(self, name: str, partition: int, item: int) -> Extent:
        """Return what a partition has.

        Raises:
            UnusablePosition: there is none such.
        """
        seen = self._look(name)
        if seen is None or not 0 <= partition < seen.feed.partition_count:
            last = self.count(name) - 1
            why = f"partitions are numbered from 0 to {last}" if seen else "there is no such event type"
            raise UnusablePosition(item=item, event_type=name[:80], partition=partition, reason=why)
        head = seen.heads[seen.feed.partition_ids[partition]]
        return Extent(seen.feed.epoch, head.floor, head.next_offset)

    def since(self, at: int, places: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
        """Return, by partition, the offset of the first event that was received at *at* or later, else its end."""
        ids: dict[int, tuple[str, int]] = {}
        ranges = {}
        for name, partition in places:
            seen = self._look(name)
            assert seen is not None
            partition_id = seen.feed.partition_ids[partition]
            ids[partition_id] = name, partition
            ranges[partition_id] = seen.heads[partition_id].floor, seen.heads[partition_id].next_offset
        return {ids[partition_id]: offset for partition_id, offset in self._tx.events.since(ranges, at).items()}

    def _look(self, name: str) -> _Seen | None:
        if name not in self._seen:
            feed = self._tx.feeds.find(name) if is_name(name) else None
            heads = self._tx.events.heads(feed.partition_ids) if feed else {}
            is_there = feed is not None and len(heads) == feed.partition_count  # Else it was dropped between the looks.
            self._seen[name] = _Seen(feed, heads) if feed and is_there else None
        return self._seen[name]
