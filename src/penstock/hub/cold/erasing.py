"""Erasing sealed events: a file that has some is replaced by one that lacks them."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import ColdTierUnavailable
from penstock.hub.cold.files import attach, check_none_needed, delete_files, give_up
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.store import Store, Tx

if TYPE_CHECKING:
    import pyarrow as pa


def erase_sealed(
    store: Store,
    file: ManifestFile,
    find: "Callable[[pa.RecordBatch], Sequence[int]]",
    clock: Callable[[], int],
    erased: Callable[[Tx, int], object],
) -> None:
    """Erase the events of a file whose offsets *find* returns, given the events of a row group.

    The file is deleted at once, also if readers are in it. *erased* is called in the transaction that replaces it, with
    the number of events that were not erased before.

    Raises:
        ColdTierUnsuitable: the cold tier is not that of the database, or none was named.
        ColdTierUnavailable, ColdFileDamaged: the file cannot be read or replaced now, or has been changed meanwhile.
    """
    if store.cold is None:
        check_none_needed(store)
        return
    attach(store)
    tier = store.cold
    offsets = sorted(chain.from_iterable(find(batch) for batch in tier.read_batches(file)))
    if not offsets:
        return
    from penstock.cold.parquet import FileWriter, leave_out
    from penstock.storage.cold.tier import make_path

    before = tier.describe(file)
    writer = FileWriter(tier.find_typed_type(file))
    for batch in tier.read_batches(file):
        writer.add(leave_out(batch, offsets))
    now = clock()
    body, content = writer.finish(msgspec.structs.replace(before, revision=before.revision + 1, written_at=now))
    path = make_path(before.event_type, before.partition, before.start, before.stop)
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
                holes = tx.removal.list_holes(file.partition_id, offsets[0], offsets[-1] + 1)
                known = {each for start, stop in holes for each in range(start, stop)}
                with tx.removal.overwriting():
                    tx.removal.remove(file.partition_id, offsets)  # It records them, and deletes what is not swept yet.
                erased(tx, sum(each not in known for each in offsets))
    except BaseException:
        give_up(store, [path], now)
        raise
    if not is_replaced:
        give_up(store, [path], now)
        reason = f"{file.path} has been changed while events of it were erased"
        raise ColdTierUnavailable(location=tier.url, reason=reason, retry_after=1)
    delete_files(store, [file.path])
