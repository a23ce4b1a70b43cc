"""Erasing sealed events: a file that has some is replaced by one that lacks them."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from penstock.errors import ColdTierUnsuitable
from penstock.hub.cold.files import attach, check_none_needed, delete_files
from penstock.hub.cold.replacing import replace_file
from penstock.hub.cold.tables import update_tables
from penstock.storage.cold.log import find_location
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
    offsets = sorted(chain.from_iterable(find(batch) for batch in store.cold.read_batches(file)))
    if not offsets:
        return

    def record(tx: Tx) -> None:
        holes = tx.removal.list_holes(file.partition_id, offsets[0], offsets[-1] + 1)
        known = {each for start, stop in holes for each in range(start, stop)}
        with tx.removal.overwriting():
            tx.removal.remove(file.partition_id, offsets)  # It records them, and deletes what is not swept yet.
        erased(tx, sum(each not in known for each in offsets))

    name = store.cold.describe(file).event_type
    replace_file(store, file, offsets, clock, record)
    update_tables(store, clock, [name])  # Before the file goes; the erasure does not depend on it.
    delete_files(store, [file.path])


def delete_given_up(
    store: Store, event_types: Sequence[str], files: Sequence[ManifestFile], clock: Callable[[], int]
) -> None:
    """Delete files of event types that were given up, at once, also if readers are in them.

    Raises:
        ColdTierUnsuitable: the cold tier is not that of the database, or none was named.
        ColdTierUnavailable, DatabaseUnavailable: one of them cannot be asked now.
    """
    if store.cold is None:
        with store.read() as tx:
            location = find_location(tx.settings) or "an unknown URL"
        raise ColdTierUnsuitable.of("cold-tier-missing", location=location)
    attach(store)
    update_tables(store, clock, event_types)  # They may name the files still.
    delete_files(store, [each.path for each in files])
