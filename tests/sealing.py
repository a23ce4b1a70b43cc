"""Scenes of the cold tier: hubs that seal when they are told to, and what their database and their files have."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.core.log.cursor import FIRST
from penstock.hub.background import Clock, system_clock
from penstock.hub.cold.sealing import FILE_BYTES, SealingOptions
from penstock.hub.hub import Hub
from penstock.hub.log.read import ChunkRows, WantedPartition
from penstock.storage import open_store
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.store import Store
from tests.promises.scene import NAME
from tests.reading import open_settled

EVENT_ROWS = 'SELECT partition_id, "offset" FROM penstock_event ORDER BY partition_id, "offset"'


def earlier_clock() -> int:
    """Return the time 5 ms ago: by SQLite's clock, which counts milliseconds, it has passed.

    Else the last events would not have been received yet when a hub is told to seal them at once.
    """
    return system_clock() - 5_000


@contextmanager
def sealing_hub(
    url: str,
    cold: str | None,
    *,
    clock: Clock = earlier_clock,
    after: float | None = 0.0,
    file_bytes: int = FILE_BYTES,
    starts: bool = False,
    has_tables: bool = False,
) -> Iterator[Hub]:
    """Run a hub with a cold tier in this process; unless it *starts*, it seals and sweeps only when it is told to."""
    store = open_store(url, cold, has_tables=has_tables)
    store.migrate()
    hub = Hub(store, clock=clock, sealing=SealingOptions(after, file_bytes))
    try:
        if starts:
            hub.start()
        yield hub
    finally:
        hub.stop()


def seal(hub: Hub) -> None:
    """Seal all that can be, and delete it from the database."""
    while hub.cold.sealer.run():
        pass
    sweep(hub.store)


def sweep(store: Store) -> None:
    """Delete what is to be deleted."""
    while True:
        with store.read() as tx:
            found = tx.removal.list_unswept(100)
        if not found:
            return
        for each in found:
            with store.write() as tx:
                tx.removal.delete(*each)


def files_of(store: Store, state: Any = "sealed") -> list[ManifestFile]:
    """Return the files of the manifest."""
    with store.read() as tx:
        return list(tx.cold.list(state=state))


def paths_in(root: Path) -> set[str]:
    """Return the events' files that lie in a directory."""
    return {each.relative_to(root).as_posix() for each in root.rglob("*.parquet")}


Row = tuple[int, int, bytes | None, bytes | None, bytes | None, bytes, float]
"""An event: partition, offset, key, kind, headers, data and when it was received."""


def read_rows(hub: Hub, partitions: int, name: str = NAME, size: int = 1_000) -> list[Row]:
    """Read the whole feed by column, in pages of *size*, and return its events with everything they have."""
    found: list[Row] = []
    for partition in range(partitions):
        cursor = FIRST
        while True:
            reading = open_settled(hub, name, None, [WantedPartition("cursor", partition, cursor)], size)
            [track] = reading.tracks
            before = len(found)
            while chunk := hub.log.reader.read_next_columns(reading, track):
                rows = ChunkRows(chunk)
                own = zip(rows.tuples(), rows.received, strict=True)
                places = zip(chunk.offsets, own, strict=True)
                found += [(partition, offset, *each, at) for offset, (each, at) in places]
                track.advance(chunk.range, chunk.columns.rows, is_filtered=reading.is_filtered)
            cursor = track.cursor
            if len(found) == before and reading.reaches_head:
                break
    return found
