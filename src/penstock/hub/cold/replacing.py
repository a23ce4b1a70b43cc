"""Replacing files of the cold tier by others of the same range, which have fewer events."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.cold.description import FileDescription
from penstock.errors import ColdTierUnavailable
from penstock.hub.cold.files import ListedFile, give_up
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.store import Store, Tx

if TYPE_CHECKING:
    from penstock.cold.parquet import FileWriter

GIVEN_UP_REVISION: Final = 1 << 31
"""The revision of a file in place of one that was lost: adoption does not take the lost one, should it come back."""


def replace_file(
    store: Store,
    file: ManifestFile,
    offsets: Sequence[int],
    clock: Callable[[], int],
    replaced: Callable[[Tx], object] = lambda tx: None,  # noqa: ARG005
) -> None:
    """Replace a file by one of the manifest's range that lacks some offsets; the old one is given up.

    *replaced* is called in the transaction that records it.

    Raises:
        ColdTierUnavailable, ColdFileDamaged: the file cannot be read or replaced now, or has been changed meanwhile.
    """
    from penstock.cold.parquet import FileWriter, leave_out, slice_offsets

    tier = store.cold
    assert tier is not None
    before = tier.describe(file)
    writer = FileWriter(tier.find_typed_type(file))
    for batch in tier.read_batches(file):
        writer.add(leave_out(slice_offsets(batch, before.start, file.stop), offsets))
    now = clock()
    described = msgspec.structs.replace(before, stop=file.stop, revision=before.revision + 1, written_at=now)
    _replace(store, file, described, writer, replaced)


def replace_by_empty(store: Store, lost: ListedFile, clock: Callable[[], int]) -> int:
    """Replace a file that cannot be read by one without events, and record them as removed; return how many it had.

    Raises:
        ColdTierUnavailable: it cannot be replaced now, or has been changed meanwhile.
        EventTypeNotFound: its event type was dropped.
    """
    from penstock.cold.parquet import FileWriter

    tier, file = store.cold, lost.file
    assert tier is not None and tier.id is not None
    with store.read() as tx:
        feed = tx.registry.get(lost.event_type)
    described = FileDescription(
        tier=tier.id,
        event_type=feed.name,
        epoch=feed.epoch,
        partition=lost.partition,
        partition_count=feed.partition_count,
        start=file.start,
        stop=file.stop,
        created_at=feed.created_at,
        definition=feed.event_type.definition,
        written_at=clock(),
        revision=GIVEN_UP_REVISION,
    )
    count = 0

    def record(tx: Tx) -> None:
        nonlocal count
        floor = tx.log.find_heads([file.partition_id])[file.partition_id].floor
        start = max(floor, file.start)
        gone = tx.removal.list_holes(file.partition_id, start, file.stop)
        known = {each for first, past in gone for each in range(first, past)}
        offsets = [each for each in range(start, file.stop) if each not in known]
        tx.removal.remove(file.partition_id, offsets)
        count = len(offsets)

    _replace(store, file, described, FileWriter(), record)
    tier.forget(file.path)
    return count


def _replace(
    store: Store,
    file: ManifestFile,
    described: FileDescription,
    writer: "FileWriter",
    replaced: Callable[[Tx], object],
) -> None:
    """Write a file, and have it take the place of another in the manifest, which is given up."""
    from penstock.storage.cold.tier import make_path

    tier, now = store.cold, described.written_at
    assert tier is not None
    body, content = writer.finish(described)
    path = make_path(described.event_type, described.partition, described.start, described.stop)

    def is_current(tx: Tx) -> bool:
        heads = tx.log.find_heads([file.partition_id], lock=True)
        return bool(heads) and tx.cold.find(file.partition_id, file.start) == file

    with store.write() as tx:
        is_begun = is_current(tx)  # Else it would have events that another erasure has erased, and waits for no more.
        if is_begun:
            tx.cold.begin(path, file.partition_id, file.start, file.stop, now)
    reason = f"{file.path} has been changed while events of it were removed"
    changed = ColdTierUnavailable(location=tier.url, reason=reason, retry_after=1)
    if not is_begun:
        raise changed
    try:
        tier.write(path, body, content)
        with store.write() as tx:
            is_replaced = is_current(tx)
            if is_replaced:
                tx.cold.give_up([file.path], "sealed", now)
                tx.cold.seal(path, content, len(body), now)
                replaced(tx)
    except BaseException:
        give_up(store, [path], now)
        raise
    if not is_replaced:
        give_up(store, [path], now)
        raise changed


def find_doubled(files: Sequence[ManifestFile]) -> Sequence[tuple[ManifestFile, ManifestFile]]:
    """Return the files that have events after their range which the next file has too, each with the next one.

    *files* are sealed ones, by partition and range. A fetch that was interrupted, and adoption, shorten the range of a
    file; its last events are sealed again then.
    """
    from penstock.storage.cold.tier import find_stop

    pairs = ((one, other) for one, other in pairwise(files) if one.partition_id == other.partition_id)
    return [(one, other) for one, other in pairs if other.start < find_stop(one.path)]
