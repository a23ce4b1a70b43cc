"""Replacing files of the cold tier by others of the same range, which have fewer events."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from penstock.errors import ColdTierUnavailable
from penstock.hub.cold.files import give_up
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.store import Store, Tx


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
    from penstock.storage.cold.tier import make_path

    tier = store.cold
    assert tier is not None
    before = tier.describe(file)
    writer = FileWriter(tier.find_typed_type(file))
    for batch in tier.read_batches(file):
        writer.add(leave_out(slice_offsets(batch, before.start, file.stop), offsets))
    now = clock()
    described = msgspec.structs.replace(before, stop=file.stop, revision=before.revision + 1, written_at=now)
    body, content = writer.finish(described)
    path = make_path(before.event_type, before.partition, before.start, file.stop)
    with store.write() as tx:
        tx.cold.begin(path, file.partition_id, file.start, file.stop, now)
    try:
        tier.write(path, body, content)
        with store.write() as tx:
            is_there = bool(tx.log.find_heads([file.partition_id], lock=True))
            is_replaced = is_there and tx.cold.find(file.partition_id, file.start) == file
            if is_replaced:
                tx.cold.give_up([file.path], "sealed", now)
                tx.cold.seal(path, content, len(body), now)
                replaced(tx)
    except BaseException:
        give_up(store, [path], now)
        raise
    if not is_replaced:
        give_up(store, [path], now)
        reason = f"{file.path} has been changed while events of it were removed"
        raise ColdTierUnavailable(location=tier.url, reason=reason, retry_after=1)


def find_doubled(files: Sequence[ManifestFile]) -> Sequence[tuple[ManifestFile, ManifestFile]]:
    """Return the files that have events after their range which the next file has too, each with the next one.

    *files* are sealed ones, by partition and range. A fetch that was interrupted, and adoption, shorten the range of a
    file; its last events are sealed again then.
    """
    from penstock.storage.cold.tier import find_stop

    pairs = ((one, other) for one, other in pairwise(files) if one.partition_id == other.partition_id)
    return [(one, other) for one, other in pairs if other.start < find_stop(one.path)]
