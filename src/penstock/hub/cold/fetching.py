"""Fetching: moves sealed events back into the database, the newest first, for those who leave the cold tier."""

from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.hub.cold.files import attach, delete_files
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.log.events import Block
from penstock.storage.store import Store, Tx

if TYPE_CHECKING:
    import pyarrow as pa

FETCHED_EVENTS: Final = 2_000
"""The number of offsets that are moved in one transaction."""


class _Step(NamedTuple):
    """Sealed offsets at the end of those of a partition."""

    file: ManifestFile
    start: int
    stop: int
    is_last: bool
    """True if the file has no others above the floor."""


def fetch(
    store: Store,
    event_type: str,
    clock: Callable[[], int],
    moved: Callable[[int], object] = lambda events: None,  # noqa: ARG005
) -> int:
    """Move the sealed events of an event type into the database, and delete their files; return how many there were.

    *moved* is called with the number of events of each transaction. Readers find every event all the while. If it is
    interrupted, a repeat goes on. Hubs of the database must not seal meanwhile: they would seal the events again.

    Raises:
        EventTypeNotFound: there is no event type of that name.
        ColdTierUnsuitable: the cold tier is not that of the database.
        ColdTierUnavailable, ColdFileDamaged: the events cannot be read; those that were moved are in the database.
    """
    attach(store)
    with store.read() as tx:
        feed = tx.registry.get(event_type)
    count = 0
    for partition_id in feed.partition_ids:
        while step := _plan(store, partition_id):
            events = _move(store, step, clock())
            count += events
            moved(events)
            if step.is_last:
                delete_files(store, [step.file.path])
    return count


def _plan(store: Store, partition_id: int) -> _Step | None:
    with store.read() as tx:
        return _find_step(tx, partition_id)


def _find_step(tx: Tx, partition_id: int, *, lock: bool = False) -> _Step | None:
    """Return the next events of a partition to move; None if none are sealed."""
    head = tx.log.find_heads([partition_id], lock=lock).get(partition_id)
    if head is None or head.cold_stop <= head.floor:
        return None
    file = tx.cold.find(partition_id, head.cold_stop - 1)
    assert file is not None, "the manifest has a file for each sealed offset"
    first = max(head.floor, file.start)
    start = max(first, head.cold_stop - FETCHED_EVENTS)
    return _Step(file, start, head.cold_stop, is_last=start == first)


def _move(store: Store, step: _Step, now: int) -> int:
    """Move events; return how many, 0 if there was a change meanwhile."""
    from penstock.cold.parquet import leave_out

    tier, file = store.cold, step.file
    assert tier is not None
    batches, at = [], step.start
    while at < step.stop:
        batch, at = tier.read(file, at, step.stop)
        batches.append(batch)
    with store.write() as tx:
        if _find_step(tx, file.partition_id, lock=True) != step:
            return 0
        holes = tx.removal.list_holes(file.partition_id, step.start, step.stop)  # An erasure may have begun.
        erased = [each for start, stop in holes for each in range(max(start, step.start), min(stop, step.stop))]
        blocks = [each for batch in batches for each in to_blocks(file.partition_id, leave_out(batch, erased))]
        tx.removal.delete(file.partition_id, step.start, step.stop)  # Those that were sealed and not deleted yet.
        tx.cold.set_stop(file.partition_id, step.start)
        tx.log.append(blocks)
        if step.is_last:
            tx.cold.give_up([file.path], "sealed", now)
        else:
            tx.cold.shorten(file.path, step.start)
    return sum(len(each.rows) for each in blocks)


def to_blocks(partition_id: int, batch: "pa.RecordBatch") -> list[Block]:
    """Return events as they were appended: a block has consecutive offsets and one time."""
    names = ("offset", "received_at", "key", "kind", "headers", "data")
    columns = {name: batch.column(name) for name in names}
    columns["received_at"] = columns["received_at"].cast("int64")
    rows = enumerate(zip(*(column.to_pylist() for column in columns.values()), strict=True))
    blocks = []
    for (_, at), group in groupby(rows, lambda each: (each[1][0] - each[0], each[1][1])):
        found = [row for _, row in group]
        blocks.append(Block(partition_id, found[0][0], at, [(*own, data.encode()) for _, _, *own, data in found]))
    return blocks
