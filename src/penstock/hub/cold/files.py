"""The files of a cold tier and the database that they belong to."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import structlog

from penstock.errors import ColdTierUnsuitable, PenstockError
from penstock.storage.admin import COLD, LOCATION, TIER
from penstock.storage.cold.log import find_location
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.store import Store, Tx

_log: Final = structlog.get_logger("penstock.cold")


class ListedFile(NamedTuple):
    """A file of the manifest, and the partition that it has events of."""

    event_type: str
    partition: int
    file: ManifestFile


class FileFault(NamedTuple):
    """A file, and the reason why it is unusable."""

    path: str
    reason: str


def attach(store: Store) -> None:
    """Check that the cold tier of *store* belongs to its database; claim it for the database if both are new.

    Raises:
        ColdTierUnsuitable: it is not.
        ColdTierUnavailable, DatabaseUnavailable: one of them cannot be asked now.
    """
    tier = store.cold
    assert tier is not None
    if tier.id is not None:
        tier.check_mark()
        return
    mark = tier.read_mark()
    with store.read() as tx:
        found = find_tier(tx)
        is_used = bool(tx.cold.list(limit=1))
    if found is None:
        if mark is not None:
            raise ColdTierUnsuitable.of("cold-tier-of-another", location=tier.url)
        with store.write() as tx:
            tx.settings.add(COLD, TIER, str(uuid.uuid4()))
        with store.read() as tx:
            found = find_tier(tx)
    if mark is None:
        if is_used:
            raise ColdTierUnsuitable.of("cold-tier-lost", location=tier.url)
        assert found is not None
        tier.write_mark(found)
    elif mark != found:
        raise ColdTierUnsuitable.of("cold-tier-of-another", location=tier.url)
    with store.write() as tx:
        tx.settings.put(COLD, LOCATION, tier.url)
    tier.id = found


def find_tier(tx: Tx) -> str | None:
    """Return the id of the database's cold tier; None if it has none."""
    return next((each.value for each in tx.settings.list() if (each.kind, each.name) == (COLD, TIER)), None)


def check_none_needed(store: Store) -> None:
    """Check that no event is in a cold tier.

    Raises:
        ColdTierUnsuitable: some are, so that a hub without it could not serve them.
    """
    with store.read() as tx:
        if tx.cold.list(state="sealed", limit=1):
            location = find_location(tx.settings) or "an unknown URL"
            raise ColdTierUnsuitable.of("cold-tier-missing", location=location)


def give_up(store: Store, paths: Sequence[str], at: int) -> None:
    """Have files deleted that were being written; if the database is away, they are found later.

    A file that is sealed stays: the commit that sealed it may have failed without an answer.
    """
    try:
        with store.write() as tx:
            tx.cold.give_up(paths, "writing", at)
    except PenstockError as error:
        _log.warning("a file of the cold tier is given up later", paths=paths, reason=error.detail)


def delete_files(store: Store, paths: Sequence[str]) -> None:
    """Delete files that were given up.

    Raises:
        ColdTierUnavailable, DatabaseUnavailable: one of them cannot be asked now.
    """
    tier = store.cold
    assert tier is not None
    for path in paths:
        tier.remove(path)
        with store.write() as tx:
            tx.cold.forget([path])


class SealedFiles(NamedTuple):
    """The files that have sealed events of a partition, and where they lie."""

    location: str | None
    """The URL of the cold tier, without credentials; None: the database has none."""
    tier: str | None
    """The id of the cold tier."""
    files: Sequence[ManifestFile]


def find_sealed(store: Store, partition_id: int, offset: int, limit: int) -> SealedFiles:
    """Return up to *limit* files that have the sealed events of a partition from *offset* on, in order."""
    with store.read() as tx:
        head = tx.log.find_heads([partition_id]).get(partition_id)
        start = max(offset, head.floor) if head is not None else offset
        found = tx.cold.list_from(partition_id, start, limit) if head is not None else []
        files = [each._replace(start=max(each.start, head.floor)) for each in found if head is not None]
        return SealedFiles(find_location(tx.settings), find_tier(tx), files)


def list_files(store: Store, event_type: str | None = None) -> Sequence[ListedFile]:
    """Return the sealed files of all event types, or of one.

    Raises:
        EventTypeNotFound: there is no event type of that name.
    """
    with store.read() as tx:
        feeds = tx.registry.list() if event_type is None else [tx.registry.get(event_type)]
        places = {each: (feed.name, number) for feed in feeds for number, each in enumerate(feed.partition_ids)}
        files = tx.cold.list(None if event_type is None else [*places], "sealed")
    found = [ListedFile(*places[each.partition_id], each) for each in files if each.partition_id in places]
    return sorted(found, key=lambda each: (each.event_type, each.partition, each.file.start))


def verify(
    store: Store,
    event_type: str | None = None,
    checked: Callable[[ListedFile], object] = lambda each: None,  # noqa: ARG005
) -> Iterator[FileFault]:
    """Read sealed files whole, and yield those that do not have what was sealed; *checked* is called after each.

    Raises:
        EventTypeNotFound: there is no event type of that name.
        ColdTierUnsuitable: the cold tier is not that of the database.
        ColdTierUnavailable: the storage does not answer.
    """
    from penstock.cold.parquet import DamagedFileError

    attach(store)
    tier = store.cold
    assert tier is not None
    for each in list_files(store, event_type):
        try:
            if tier.check(each.file.path) != each.file.content:
                yield FileFault(each.file.path, "it does not have the events that were sealed")
        except FileNotFoundError:
            yield FileFault(each.file.path, "it is not there")
        except DamagedFileError as error:
            yield FileFault(each.file.path, str(error))
        checked(each)


def delete_unknown(store: Store, paths: Sequence[str]) -> None:
    """Delete files that `find_unknown` has found, unless the manifest has them now.

    Raises:
        ColdTierUnavailable: the storage does not answer.
    """
    tier = store.cold
    assert tier is not None
    with store.read() as tx:
        known = {each.path for each in tx.cold.list()}
    for path in paths:
        if path not in known:
            tier.remove(path)


def find_unknown(store: Store) -> Sequence[str]:
    """Return the files at the storage that the manifest does not know: nothing needs them.

    Raises:
        ColdTierUnsuitable: the cold tier is not that of the database.
        ColdTierUnavailable: the storage does not answer.
    """
    attach(store)
    tier = store.cold
    assert tier is not None
    from penstock.storage.cold.tier import is_path

    found = [path for path, _ in tier.list()]  # Before the manifest, which has a file before the storage has it.
    with store.read() as tx:
        known = {each.path for each in tx.cold.list()}
    return sorted(path for path in found if path not in known and is_path(path) and _is_of(store, path))


def _is_of(store: Store, path: str) -> bool:
    """Return whether a file that the manifest does not know is of the store's cold tier, or cannot be read."""
    from penstock.cold.parquet import DamagedFileError

    tier = store.cold
    assert tier is not None
    try:
        return tier.describe_path(path).tier == tier.id
    except DamagedFileError:
        return True
    except FileNotFoundError:
        return False
