"""Port of the cold tier's manifest: which files there are, and which range of a partition each has."""

from collections.abc import Collection, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from penstock.cold.description import FileContent
from penstock.storage.statements import SqlRunner

ALL: Final = 1 << 40
"""A limit that is never reached."""
FileState = Literal["writing", "sealed", "removed"]


class ManifestFile(NamedTuple):
    """A file of the manifest."""

    path: str
    """Relative to the root of the cold tier."""
    partition_id: int
    state: FileState
    start: int
    stop: int
    content: FileContent
    file_bytes: int
    changed_at: int
    """When its state has changed, in microseconds since 1970, UTC."""


class ColdMeasurement(NamedTuple):
    """The files of an event type."""

    event_type: str
    files: int
    bytes: int


class ColdMeasurements(NamedTuple):
    """The files of the event types that have most."""

    event_types: Sequence[ColdMeasurement]
    total: int
    """The number of event types with files, also of those that are left out."""


class ColdRepository:
    """The manifest of the cold tier.

    Each offset of a partition from its floor to its `cold_stop` is in the range of exactly one sealed file.
    """

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run

    def begin(self, path: str, partition_id: int, start: int, stop: int, at: int) -> None:
        """Record a file that is going to be written."""
        self._run("cold_begin", path=path, partition_id=partition_id, start=start, stop=stop, at=at)

    def seal(self, path: str, content: FileContent, file_bytes: int, at: int) -> bool:
        """Record what a file has that was written and verified; return False if it was given up meanwhile."""
        given = {"path": path, **content._asdict(), "file_bytes": file_bytes, "at": at}
        return self._run("cold_seal", **given).rowcount > 0

    def set_stop(self, partition_id: int, stop: int) -> None:
        """Set the offset below which events of a partition are in files. The head of the partition is locked."""
        self._run("cold_stop_set", partition_id=partition_id, stop=stop)

    def shorten(self, path: str, stop: int) -> None:
        """Record that the range of a file ends earlier than before."""
        self._run("cold_shorten", path=path, stop=stop)

    def give_up(self, paths: Sequence[str], state: Literal["writing", "sealed"], at: int) -> None:
        """Record that files are to be deleted, those that are in a state."""
        self._run("cold_give_up", paths=_encode(paths), state=state, at=at)

    def give_up_unneeded(self, seconds: float, at: int) -> int:
        """Give up files whose events have expired, and files that have been written for *seconds* or longer.

        Files whose writing began as long after *at* count, too: a clock was set back. Return the number of files.
        """
        age = int(seconds * 1_000_000)
        return self._run("cold_give_up_unneeded", before=at - age, after=at + age, at=at).rowcount

    def forget(self, paths: Sequence[str]) -> None:
        """Forget files that were deleted."""
        self._run("cold_forget", paths=_encode(paths))

    def find_known(self, paths: Collection[str]) -> set[str]:
        """Return those of *paths* that the manifest has, in whatever state."""
        return {path for (path,) in self._run("cold_known", paths=_encode(paths)).fetchall()}

    def find(self, partition_id: int, offset: int) -> ManifestFile | None:
        """Return the sealed file whose range has an offset."""
        rows = self._run("cold_find", partition_id=partition_id, offset=offset).fetchall()
        found = [_read_file(row) for row in rows]
        return found[0] if found and found[0].start <= offset else None

    def list_from(self, partition_id: int, offset: int, limit: int) -> Sequence[ManifestFile]:
        """Return up to *limit* sealed files of a partition whose ranges end after an offset, in order."""
        return self._list_of([partition_id], "sealed", offset=offset, limit=limit)

    def list(
        self, partition_ids: Sequence[int] | None = None, state: FileState | None = None, limit: int = ALL
    ) -> Sequence[ManifestFile]:
        """Return up to *limit* files by partition and range."""
        if partition_ids is not None:
            return self._list_of(partition_ids, state, limit=limit)
        return [_read_file(row) for row in self._run("cold_files_all", state=state, limit=limit).fetchall()]

    def measure(self, limit: int) -> ColdMeasurements:
        """Measure the files of up to *limit* event types, those with the largest files first."""
        rows = self._run("cold_measure", limit=limit).fetchall()
        return ColdMeasurements([ColdMeasurement(*each) for *each, _ in rows], rows[0][-1] if rows else 0)

    def _list_of(
        self, partition_ids: Sequence[int], state: FileState | None, *, offset: int = -1, limit: int
    ) -> Sequence[ManifestFile]:
        given = {"ids": _encode(partition_ids), "state": state, "offset": offset, "limit": limit}
        return [_read_file(row) for row in self._run("cold_files", **given).fetchall()]


def _encode(values: Collection[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()


def _read_file(row: Sequence[Any]) -> ManifestFile:
    path, partition_id, state, start, stop, *content, file_bytes, changed_at = row
    return ManifestFile(path, partition_id, state, start, stop, FileContent(*content), file_bytes, changed_at)
