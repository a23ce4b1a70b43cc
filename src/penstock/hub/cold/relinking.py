"""Relinking: after a backup was restored, the manifest names files that erasure has replaced since; take these."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from penstock.cold.description import FileDescription
from penstock.hub.cold.files import ListedFile, list_files
from penstock.storage.log.removal import Range, merge_ranges
from penstock.storage.store import Store

if TYPE_CHECKING:
    import pyarrow as pa


class ReplacedFile(NamedTuple):
    """A file that the manifest names and that is not there, and the one that has replaced it."""

    missing: ListedFile
    path: str
    """The file that is there, which the manifest does not know."""


def find_replacements(store: Store, unknown: Collection[str]) -> Sequence[ReplacedFile]:
    """Return which of the *unknown* files, as `find_unknown` returns them, have replaced files that are missing.

    Raises:
        ColdTierUnavailable: the storage does not answer.
    """
    from penstock.cold.parquet import DamagedFileError

    tier = store.cold
    assert tier is not None
    found: dict[tuple[str, int, int], list[tuple[FileDescription, str]]] = defaultdict(list)
    for path in unknown:
        try:
            described = tier.describe_path(path)
        except (DamagedFileError, FileNotFoundError):
            continue
        found[described.event_type, described.partition, described.start].append((described, path))
    with store.read() as tx:
        created = {feed.name: feed.created_at for feed in tx.registry.list()}
    replacements = []
    for each in list_files(store) if found else ():
        fitting = [
            (described, path)
            for described, path in found.get((each.event_type, each.partition, each.file.start), ())
            if described.created_at == created.get(each.event_type) and described.stop >= each.file.stop
        ]
        if fitting and _is_missing(store, each.file.path):
            _, path = max(fitting, key=lambda one: (one[0].revision, one[0].written_at))
            replacements.append(ReplacedFile(each, path))
    return replacements


def relink(store: Store, replacement: ReplacedFile, clock: Callable[[], int]) -> bool:
    """Have the manifest name the file that is there, and record the events that it lacks as removed.

    Return False if the file is damaged or has events that were removed, or if the manifest has changed meanwhile.

    Raises:
        ColdTierUnavailable: the storage does not answer.
    """
    from penstock.cold.parquet import DamagedFileError, find_ranges

    tier, file = store.cold, replacement.missing.file
    assert tier is not None
    events: list[Range] = []

    def see(batch: "pa.RecordBatch") -> None:
        events.extend(find_ranges(batch))

    try:
        content = tier.check(replacement.path, see)
    except (DamagedFileError, FileNotFoundError):
        return False
    size = next((size for path, size in tier.list() if path == replacement.path), 0)
    now = clock()
    with store.write() as tx:
        head = tx.log.find_heads([file.partition_id], lock=True).get(file.partition_id)
        if head is None or tx.cold.find(file.partition_id, file.start) != file:
            return False
        start = max(file.start, head.floor)
        lacking = _find_gaps(events, start, file.stop)
        holes = tx.removal.list_holes(file.partition_id, start, file.stop)
        removed = [(max(start, first), min(past, file.stop)) for first, past in holes]
        if merge_ranges([*lacking, *(each for each in removed if each[0] < each[1])]) != lacking:
            return False
        tx.cold.give_up([file.path], "sealed", now)
        tx.cold.begin(replacement.path, file.partition_id, file.start, file.stop, now)
        tx.cold.seal(replacement.path, content, size, now)
        with tx.removal.overwriting():
            tx.removal.remove(file.partition_id, [each for first, past in lacking for each in range(first, past)])
    tier.forget(file.path)
    return True


def _is_missing(store: Store, path: str) -> bool:
    from penstock.cold.parquet import DamagedFileError

    assert store.cold is not None
    try:
        store.cold.describe_path(path)
    except FileNotFoundError:
        return True
    except DamagedFileError:
        return False
    return False


def _find_gaps(ranges: Sequence[Range], start: int, stop: int) -> Sequence[Range]:
    """Return the parts of a range that none of *ranges* has.

    >>> _find_gaps([(0, 3), (4, 6), (8, 12)], 2, 10)
    [(3, 4), (6, 8)]
    """
    bounded = [(start, start), *((max(start, first), past) for first, past in ranges if past > start), (stop, stop)]
    gaps = [(past, min(first, stop)) for (_, past), (first, _) in pairwise(merge_ranges(bounded))]
    return [(first, past) for first, past in gaps if first < past]
