"""Port of the removal of events: floors that rise, what is below them, and events that are removed one by one."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import msgspec

from penstock.storage.log.events import DELETION
from penstock.storage.statements import SqlRunner

Range = tuple[int, int]
"""A range of offsets: the first, and the one after the last."""


class UnsweptRange(NamedTuple):
    """Offsets of a partition that are below its floor, or in files of the cold tier: events are still to be deleted."""

    partition_id: int
    start: int
    """Offset of the first such event."""
    stop: int
    """The floor, or the end of the last file."""


class EventKey(NamedTuple):
    """Key of an event."""

    offset: int
    key: str | None
    is_deletion: bool
    """True if it asks to delete the earlier events of its key, and is not shown itself."""
    received_at: int


class CompactionProgress(NamedTuple):
    """The progress of a partition's compaction."""

    stop: int
    """All events below it that had a newer one below it are gone."""
    events: int
    """The number of events below it."""
    deletion_at: int | None
    """When the oldest deletion among them was received; None: there is none."""


class Compaction(NamedTuple):
    """Compaction of a partition."""

    start: int
    """Offset from which on the keys of events are compaction keys."""
    progress: CompactionProgress


class RemovalRepository:
    """Removes events, and keeps a record of the offsets of those that are removed one by one.

    The latter are called holes. Each event that a partition does not have is below its floor, or in a hole.
    """

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run

    def raise_floor(self, partition_id: int, floor: int) -> bool:
        """Raise the floor of a partition; return False if it is as high already.

        Readers no longer see the events below it, which may be deleted. Until the transaction ends, no other one
        appends to the partition.
        """
        return self._run("raise_floor", partition_id=partition_id, floor=floor).rowcount > 0

    def list_unswept(self, limit: int) -> Sequence[UnsweptRange]:
        """Return up to *limit* partitions, dropped ones among them, that hold events to delete."""
        return [UnsweptRange(*row) for row in self._run("below_floor", limit=limit).fetchall()]

    def delete(self, partition_id: int, start: int, stop: int) -> int:
        """Delete the events of a range below the floor, or in files of the cold tier; return how many there were."""
        deleted = self._run("delete_range", partition_id=partition_id, start=start, stop=stop).rowcount
        self._run("holes_expire", partition_id=partition_id, stop=stop)
        return deleted

    def measure_size(self, partition_id: int, start: int, stop: int) -> int:
        """Return the size of the events of a range in bytes, of their data alone."""
        [(size,)] = self._run("data_size", partition_id=partition_id, start=start, stop=stop).fetchall()
        return int(size)

    def find_size_stop(self, partition_id: int, start: int, stop: int, size: int) -> int:
        """Return the offset after the first events of a range that have *size* bytes of data or more, else its stop."""
        rows = self._run("data_size_stop", partition_id=partition_id, start=start, stop=stop, size=size).fetchall()
        return int(rows[0][0]) if rows else stop

    def list_keys(self, partition_id: int, start: int, stop: int, limit: int) -> Sequence[EventKey]:
        """Return the keys of up to *limit* events of a range, in order."""
        given = {"partition_id": partition_id, "start": start, "stop": stop, "limit": limit, "deletion": DELETION}
        rows = self._run("keys", **given).fetchall()
        return [EventKey(offset, key, bool(is_deletion), at) for offset, key, is_deletion, at in rows]

    def find_compaction(self, partition_id: int) -> Compaction:
        """Return from where on a partition is compacted, and how far."""
        [(start, *progress)] = self._run("compaction_find", partition_id=partition_id).fetchall() or [(0, 0, 0, None)]
        return Compaction(start, CompactionProgress(*progress))

    def put_compaction(self, partition_id: int, progress: CompactionProgress) -> None:
        """Record what the compaction of a partition has left, unless another hub has come further."""
        self._run("compaction_put", partition_id=partition_id, **progress._asdict())

    def list_offsets(self, partition_id: int, start: int, stop: int, key: str) -> Sequence[int]:
        """Return the offsets of the events of a range that have a key, sorted; each event of it is looked at."""
        rows = self._run("key_offsets", partition_id=partition_id, start=start, stop=stop, key=key).fetchall()
        return [offset for (offset,) in rows]

    @contextmanager
    def overwriting(self) -> Iterator[None]:
        """Make SQLite overwrite the bytes of rows that the block deletes; PostgreSQL does not."""
        self._run("overwrite_on")
        try:
            yield
        finally:
            self._run("overwrite_off")

    def list_holes(self, partition_id: int, start: int, stop: int) -> Sequence[Range]:
        """Return the holes that reach into a range, sorted; they neither touch nor overlap."""
        rows = self._run("holes", partition_id=partition_id, start=start, stop=stop).fetchall()
        return [(first, past) for first, past in rows]

    def count_removed(self, partition_id: int, start: int) -> int:
        """Return the number of offsets from *start* on whose events were removed one by one."""
        [(count,)] = self._run("holes_count", partition_id=partition_id, start=start).fetchall()
        return int(count)

    def record_holes(self, partition_id: int, holes: Sequence[Range]) -> None:
        """Record the holes of a partition that has none; they are sorted, and neither touch nor overlap."""
        if holes:
            self._run("holes_insert", partition_id=partition_id, ranges=msgspec.json.encode(holes).decode())
            self._run("raise_holes_stop", partition_id=partition_id, stop=holes[-1][1])

    def remove(self, partition_id: int, offsets: Sequence[int]) -> int:
        """Remove events above the floor, and record their offsets; return how many were there.

        The head of the partition is locked. *offsets* are sorted.
        """
        if not offsets:
            return 0
        first, past = offsets[0], offsets[-1] + 1
        near = self.list_holes(partition_id, max(0, first - 1), past + 1)
        merged = merge_ranges(chain(near, ((each, each + 1) for each in offsets)))
        self._run("holes_delete", partition_id=partition_id, start=merged[0][0], stop=merged[-1][1])
        self._run("holes_insert", partition_id=partition_id, ranges=msgspec.json.encode(merged).decode())
        self._run("raise_holes_stop", partition_id=partition_id, stop=past)
        given = msgspec.json.encode(list(offsets)).decode()
        return self._run("delete_offsets", partition_id=partition_id, offsets=given).rowcount


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Return the offsets of all *ranges* as few ranges, sorted.

    >>> merge_ranges([(4, 5), (1, 3), (3, 4), (7, 9)])
    [(1, 5), (7, 9)]
    """
    found: list[Range] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found
