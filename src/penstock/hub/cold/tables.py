"""Keeps the tables of a cold tier equal to its manifest."""

import threading
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from penstock.errors import ColdFileDamaged, EventTypeNotFound
from penstock.hub.background import Background, Clock, system_clock
from penstock.hub.cold.files import attach, list_files
from penstock.hub.cold.replacing import find_doubled, replace_file
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.cold.tables import TableFile

INTERVAL: Final = 30.0
"""The seconds between two looks at the manifest: a file that is no longer needed is deleted after a minute."""
_log: Final = structlog.get_logger("penstock.cold")


class TableKeeper:
    """Updates the tables of one store's cold tier, if it has any, in a thread of its own: sealing does not wait."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._stop_wanted = False
        self._wanted = threading.Event()
        self._thread = Background("penstock-tables", self._run)

    def start(self) -> None:
        """Start updating; do nothing without tables."""
        if self._store.cold is not None and self._store.cold.tables is not None:
            self._thread.start()

    def wake(self) -> None:
        """Have the tables updated now, since files have changed."""
        self._wanted.set()

    def stop(self, timeout: float | None = None) -> bool:
        """End after the current update; return whether that was within *timeout*."""
        self._stop_wanted = True
        self.wake()
        return self._thread.wait_for_end(timeout)

    def _run(self) -> None:
        while not self._stop_wanted:
            self._wanted.clear()
            update_tables(self._store, self._clock)
            self._wanted.wait(INTERVAL)


def update_tables(store: Store, clock: Clock = system_clock, only: Collection[str] | None = None) -> bool:
    """Have the tables of all event types, or of *only* some, name the files that the manifest does.

    Files that have events of others are replaced before. Return whether the tables name all files; if not, a warning is
    logged. Nothing is done if the cold tier has no tables.
    """
    tier = store.cold
    if tier is None or tier.tables is None:
        return True
    is_current = True
    try:
        attach(store)
        for file, _ in find_doubled([listed.file for listed in list_files(store)]):
            replace_file(store, file, [], clock)
        wanted = defaultdict[str, list[str]](list)
        for each in list_files(store):
            wanted[each.event_type].append(each.file.path)
        stale = [each for each in tier.find_stale_tables(wanted) if only is None or each in only]
    except Exception as error:  # noqa: BLE001 - sealing and erasing go on without tables
        stale, is_current = [], False
        _warn(store, None, error)
    for name in stale:
        try:
            found: dict[str, ManifestFile] = {}
            tier.update_table(name, partial(_find_files, store, name, found), partial(_find_type, store, found))
        except Exception as error:  # noqa: BLE001 - likewise, and so do the other tables
            is_current = False
            _warn(store, name, error)
    return is_current


def _find_files(store: Store, name: str, found: dict[str, ManifestFile]) -> "Sequence[TableFile]":
    """Return the files of an event type, and keep in *found* what the manifest says of them."""
    from penstock.cold.tables import TableFile

    try:
        files = [each.file for each in list_files(store, name)]
    except EventTypeNotFound:  # It was dropped.
        files = []
    doubled = {each.path for _, each in find_doubled(files)}
    files = [each for each in files if each.path not in doubled]  # Until the file before it was replaced.
    found.update({each.path: each for each in files})
    return [TableFile(each.path, each.file_bytes, each.content.events) for each in files]


def _find_type(store: Store, found: dict[str, ManifestFile], path: str) -> "pa.StructType | None":
    assert store.cold is not None
    try:
        return store.cold.find_typed_type(found[path])
    except ColdFileDamaged:  # It is told of by readers and by `penstock cold verify`.
        return None


def _warn(store: Store, name: str | None, error: Exception) -> None:
    assert store.cold is not None and store.cold.tables is not None
    store.cold.tables.failures += 1
    reason = " ".join(str(error).split())[:300]
    _log.warning("a table of the cold tier cannot be updated, trying again", event_type=name, reason=reason)
