"""Adopting: makes feeds of the files of a cold tier whose database is lost."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from penstock.cold.description import FileContent, FileDescription
from penstock.core.registry.event_type import EventType
from penstock.errors import ColdFileDamaged, ColdTierUnavailable, ColdTierUnsuitable
from penstock.hub.cold.fetching import to_blocks
from penstock.hub.cold.files import find_tier
from penstock.storage.admin import COLD, LOCATION, TIER
from penstock.storage.log.events import Block
from penstock.storage.log.removal import Range, merge_ranges
from penstock.storage.store import Store, Tx

if TYPE_CHECKING:
    import pyarrow as pa


class AdoptedPartition(NamedTuple):
    """The events that a partition has recovered from files."""

    event_type: str
    partition: int
    start: int
    stop: int
    """The offset after the last event."""
    files: int
    missing: Sequence[Range]
    """Offsets that are in no file."""


class _File(NamedTuple):
    """A file at the storage, and the range that is taken from it."""

    path: str
    size: int
    description: FileDescription
    start: int
    stop: int


class _Checked(NamedTuple):
    """A file that was read whole."""

    file: _File
    content: FileContent
    offsets: Sequence[Range]
    """The offsets of the events that are taken from it."""
    last: Block | None
    """The last of these events."""


_Place = tuple[str, int]
"""Name of an event type, and a partition of it."""


def adopt(
    store: Store,
    clock: Callable[[], int],
    *,
    accepts_missing: bool = False,
) -> Sequence[AdoptedPartition]:
    """Make event types of the files of the store's cold tier, in one transaction, and return their partitions.

    Every file is read whole. Events that had not been sealed are lost with the database, so its cursors are refused as
    expired. With *accepts_missing* readers pass over offsets that are in no file, or in a damaged one, as over erased
    events.

    Raises:
        ColdTierUnsuitable: there is no cold tier here, or the database has another one.
        EventTypeExists: the database has an event type of that name.
        ColdFileDamaged: a file cannot be read, or offsets between two files are missing.
        ColdTierUnavailable: the storage does not answer, or has files that appeared meanwhile.
    """
    tier = store.cold
    assert tier is not None
    mark = tier.read_mark()
    with store.read() as tx:
        found = find_tier(tx)
    if mark is None:
        raise ColdTierUnsuitable.of("cold-tier-absent", location=tier.url)
    if found is not None:
        raise ColdTierUnsuitable.of("cold-tier-present", location=tier.url)
    listed = dict(tier.list())
    files = _find_files(store, mark, listed, accepts_missing=accepts_missing)
    read = {place: _read(store, own, accepts_missing=accepts_missing) for place, own in files.items()}
    _check_listing(store, listed)
    partitions = {place: own for place, own in read.items() if own}
    for (name, partition), own in partitions.items():
        missing = _find_missing([(each.file.start, each.file.stop) for each in own])
        if missing and not accepts_missing:
            start, stop = missing[0]
            reason = f"offsets {start} to {stop - 1} of {name}, partition {partition}, are in no file"
            raise ColdFileDamaged(location=tier.url, path=f"{name}/{partition}", reason=reason)
    with store.write() as tx:
        tx.settings.put(COLD, LOCATION, tier.url)
        tx.settings.add(COLD, TIER, mark)
        adopted: list[AdoptedPartition] = []
        for name in sorted({name for name, _ in partitions}):
            adopted += _insert(
                tx, name, {number: own for (each, number), own in partitions.items() if each == name}, clock()
            )
        tx.registry.raise_epochs()
        tx.settings.note_access_change()
    return adopted


def _find_files(
    store: Store, tier_id: str, listed: Mapping[str, int], *, accepts_missing: bool
) -> Mapping[_Place, Sequence[_File]]:
    """Return the files to take, by partition and in the order of their offsets.

    Of two files with one beginning the one counts that was written last: erasure replaces files. Of two event types of
    one name the later one counts, whose epochs are higher. See also `_cut`.
    """
    from penstock.cold.parquet import DamagedFileError
    from penstock.storage.cold.tier import is_path

    tier = store.cold
    assert tier is not None
    found: list[_File] = []
    for path, size in listed.items():
        if not is_path(path):
            continue
        try:
            described = tier.describe_path(path)
        except FileNotFoundError:  # The listing is older than the deletion of the file.
            continue
        except DamagedFileError as error:
            if accepts_missing:
                continue
            raise ColdFileDamaged(location=tier.url, path=path, reason=str(error)) from error
        if described.tier == tier_id:
            found.append(_File(path, size, described, described.start, described.stop))
    created = {each.description.event_type: each.description.created_at for each in sorted(found, key=_epoch)}
    chosen: dict[_Place, dict[int, _File]] = defaultdict(dict)
    for each in sorted(found, key=_age):
        described = each.description
        if described.created_at == created[described.event_type]:
            chosen[described.event_type, described.partition][described.start] = each
    return {place: _cut([own[start] for start in sorted(own)]) for place, own in chosen.items()}


def _epoch(file: _File) -> tuple[int, int]:
    return file.description.epoch, file.description.created_at


def _age(file: _File) -> tuple[int, int, int]:
    return file.description.epoch, file.description.revision, file.description.written_at


def _cut(files: Sequence[_File]) -> Sequence[_File]:
    """Return files that follow each other, none of which reaches into the next one.

    Once a backup was restored, epochs are higher. The database then goes on where the files end that it knows, so files
    of lower epochs at or after the first one of a higher epoch are of events that are lost.
    """
    found: list[_File] = []
    for file in files:
        if found and file.description.epoch < found[-1].description.epoch:
            continue
        if found and file.description.epoch == found[-1].description.epoch and file.stop <= found[-1].stop:
            continue
        if found:
            found[-1] = found[-1]._replace(stop=min(found[-1].stop, file.start))
        found.append(file)
    return found


def _read(store: Store, files: Sequence[_File], *, accepts_missing: bool) -> Sequence[_Checked]:
    from penstock.cold.parquet import DamagedFileError, find_ranges, slice_offsets

    tier = store.cold
    assert tier is not None
    found = []
    for file in files:
        last: list[pa.RecordBatch] = []
        offsets: list[Range] = []

        def see(
            batch: "pa.RecordBatch",
            file: _File = file,
            offsets: list[Range] = offsets,
            last: "list[pa.RecordBatch]" = last,
        ) -> None:
            taken = slice_offsets(batch, file.start, file.stop)
            if taken.num_rows:
                offsets += find_ranges(taken)
                last[:] = [taken.slice(taken.num_rows - 1)]

        try:
            content = tier.check(file.path, see)
        except (DamagedFileError, FileNotFoundError) as error:
            if accepts_missing:
                continue
            raise ColdFileDamaged(location=tier.url, path=file.path, reason=str(error)) from error
        found.append(_Checked(file, content, merge_ranges(offsets), to_blocks(0, last[0])[0] if last else None))
    return found


def _check_listing(store: Store, before: Collection[str]) -> None:
    """Raise ColdTierUnavailable if files have appeared since: a hub still seals, or the listing lacked some."""
    from penstock.storage.cold.tier import is_path

    tier = store.cold
    assert tier is not None
    appeared = sum(path not in before and is_path(path) for path, _ in tier.list())
    if appeared:
        reason = f"{appeared} files have appeared while the others were read: stop all hubs of the lost database"
        raise ColdTierUnavailable(location=tier.url, reason=reason, retry_after=60)


def _insert(tx: Tx, name: str, partitions: Mapping[int, Sequence[_Checked]], now: int) -> Sequence[AdoptedPartition]:
    """Insert an event type as its files describe it."""
    newest = max(
        (each.file.description for own in partitions.values() for each in own),
        key=lambda each: (each.epoch, each.written_at),
    )
    tx.registry.insert(EventType.of({**newest.definition}, newest.partition_count), newest.created_at)
    feed = tx.registry.get(name)
    adopted = []
    for number, own in sorted(partitions.items()):
        partition_id = feed.partition_ids[number]
        start, stop = own[0].file.start, own[-1].file.stop
        files = merge_ranges((each.file.start, each.file.stop) for each in own)
        events = merge_ranges(
            (max(first, each.file.start), min(past, each.file.stop))
            for each in own
            for first, past in each.offsets
            if first < each.file.stop
        )
        last = next((each.last for each in reversed(own) if each.last is not None), None)
        cold_stop = stop if last is None else last.start  # The last event is in the database: see `Sealer`.
        at = start
        for each in own:
            end = min(each.file.stop, cold_stop)
            if at < end:
                tx.cold.begin(each.file.path, partition_id, at, end, now)
                tx.cold.seal(each.file.path, each.content, each.file.size, now)
                at = end
        tx.removal.raise_floor(partition_id, start)
        tx.cold.set_stop(partition_id, cold_stop)
        tx.removal.record_holes(partition_id, _find_missing([(start, start), *events, (stop, stop)]))
        if last is not None:
            tx.log.append([last._replace(partition_id=partition_id)])
        adopted.append(AdoptedPartition(name, number, start, stop, len(own), _find_missing(files)))
    return adopted


def _find_missing(ranges: Sequence[Range]) -> Sequence[Range]:
    """Return the gaps between ranges.

    >>> _find_missing([(0, 4), (4, 6), (9, 12)])
    [(6, 9)]
    """
    return [(stop, start) for (_, stop), (start, _) in pairwise(ranges) if stop < start]
