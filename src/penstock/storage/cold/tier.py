"""Reads and writes the files of one cold tier; keeps what was just read in memory, within limits.

The manifest of the database says which file has an offset. What it says is believed for `KNOWN_SECONDS` without asking
again, so that a reader of many pages needs no connection to the database: so long erased events may still be read.
"""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import pyarrow as pa

from penstock.cold.description import FileContent, FileDescription
from penstock.cold.parquet import (
    ColdFile,
    DamagedFileError,
    cut_bytes,
    slice_offsets,
)
from penstock.cold.storage import ColdStorage, open_storage
from penstock.errors import ColdFileDamaged, ColdTierUnavailable
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.cold.rows import to_columns, to_lines
from penstock.storage.log.events import CHUNK_BYTES, Frame, KindFilter, StoredColumns, StoredLines

MARK: Final = "penstock-cold-tier.json"
"""The file at the root that says whose cold tier it is."""
KNOWN_SECONDS: Final = 2.0
OPEN_FILES: Final = 256
"""So many footers are kept in memory."""
GROUP_BYTES_MAX: Final = 64 << 20
"""So many bytes of row groups are kept in memory, decoded."""
READS_MAX: Final = 8
"""So many reads of the storage at a time: others wait, so that one that is slow does not take all threads."""
WAIT_SECONDS: Final = 2.0
"""How long a read waits for its turn."""
AWAY_SECONDS: Final = 2.0
"""For so long after a failure of the storage it is not asked again."""
_Group = tuple[str, int]
"""A row group: path and number."""


class _Mark(msgspec.Struct, frozen=True):
    """What the file `MARK` has."""

    id: str
    layout: int = 1


class ColdTier:
    """The files of one cold tier. Safe to use from many threads.

    Attributes:
        url: URL of its root, without credentials.
        id: The id of the database's cold tier; None until `attach`.
    """

    def __init__(self, storage: ColdStorage, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.url = storage.url
        self.id: str | None = None
        self._storage = storage
        self._monotonic = monotonic
        self._turns = threading.BoundedSemaphore(READS_MAX)
        self._guard = threading.Lock()
        self._known: dict[int, list[tuple[float, ManifestFile]]] = {}
        self._files: OrderedDict[str, ColdFile] = OrderedDict()
        self._groups: OrderedDict[_Group, pa.RecordBatch] = OrderedDict()
        self._group_bytes = 0
        self._away: tuple[float, ColdTierUnavailable] | None = None

    @classmethod
    def at(cls, url: str) -> "ColdTier":
        """Return the cold tier at *url*: see `penstock.cold.storage.open_storage`; nothing is connected yet.

        Raises:
            BadParameter: *url* names no storage.
        """
        return cls(open_storage(url))

    # Whose it is

    def read_mark(self) -> str | None:
        """Return the id of the cold tier that lies here; None if there is none.

        Raises:
            ColdTierUnavailable: the storage does not answer.
        """
        with self._asking():
            try:
                source = self._storage.open(MARK)
            except FileNotFoundError:
                return None
            return msgspec.json.decode(source.read(), type=_Mark).id

    def write_mark(self, id: str) -> None:
        """Record whose cold tier lies here.

        Raises:
            ColdTierUnavailable: the storage does not answer.
        """
        self._storage.write(MARK, msgspec.json.encode(_Mark(id)))

    # Reading

    def learn(self, file: ManifestFile) -> None:
        """Believe for a while that a file has its range."""
        now = self._monotonic()
        with self._guard:
            known = [each for each in self._known.get(file.partition_id, ()) if each[0] > now]
            self._known[file.partition_id] = [*known, (now + KNOWN_SECONDS, file)]

    def recall(self, partition_id: int, start: int, stop: int) -> ManifestFile | None:
        """Return the file that is believed to have a whole range."""
        now = self._monotonic()
        with self._guard:
            for until, file in self._known.get(partition_id, ()):
                if until > now and file.start <= start and stop <= file.stop:
                    return file
        return None

    def read(self, file: ManifestFile, start: int, stop: int) -> tuple[pa.RecordBatch, int]:
        """Return events of a range, up to about `CHUNK_BYTES`, and the offset at which they end: *stop*, or less.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            ColdFileDamaged: the file does not have what it should.
        """
        opened, stop = self._open(file), min(stop, file.stop)
        parts, size, at = list[pa.RecordBatch](), 0, start
        while at < stop:
            group, end = opened.find_group(at)
            end = min(stop, end)
            part = slice_offsets(self._read_group(file, group), at, end)
            part, fits = cut_bytes(part, CHUNK_BYTES - size, is_first=not parts)
            parts.append(part)
            size += part.nbytes
            at = end if fits is None else fits
            if fits is not None:
                break
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts), at

    def read_columns(self, file: ManifestFile, start: int, stop: int) -> StoredColumns:
        """Return events of a file by column, up to *stop* or less: see `LogRepository.read_columns`.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            ColdFileDamaged: the file does not have what it should.
        """
        return to_columns(*self.read(file, start, stop))

    def read_lines(
        self, file: ManifestFile, start: int, stop: int, frame: Frame, kinds: KindFilter | None
    ) -> StoredLines:
        """Return events of a file as one value: see `LogRepository.read_lines`.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            ColdFileDamaged: the file does not have what it should.
        """
        return to_lines(*self.read(file, start, stop), frame, kinds)

    def read_batches(self, file: ManifestFile) -> Iterator[pa.RecordBatch]:
        """Yield all events of a file.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            ColdFileDamaged: the file does not have what it should.
        """
        for group in range(self._open(file).group_count):
            yield self._read_group(file, group, keep=False)

    def find_first_received(self, file: ManifestFile, start: int, at: int) -> int | None:
        """Return the offset of the first event from *start* on that was received at *at* or later; None: there is none.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            ColdFileDamaged: the file does not have what it should.
        """
        while start < file.stop:
            batch, stop = self.read(file, start, file.stop)
            times = batch.column("received_at").cast(pa.int64())
            if len(times) and times[-1].as_py() >= at:
                row = next(row for row, each in enumerate(times.to_pylist()) if each >= at)
                return int(batch.column("offset")[row].as_py())
            start = stop
        return None

    def _open(self, file: ManifestFile) -> ColdFile:
        with self._guard:
            found = self._files.get(file.path)
            if found is not None:
                self._files.move_to_end(file.path)
                return found
        with self._asking(), self._explained(file.path):
            found = ColdFile(self._storage.open(file.path))
            described = found.description
            if described.tier != (self.id or described.tier) or described.stop < file.stop:
                raise DamagedFileError("it is another file than the one that was sealed")
        with self._guard:
            self._files[file.path] = found
            while len(self._files) > OPEN_FILES:
                self._files.popitem(last=False)
        return found

    def _read_group(self, file: ManifestFile, group: int, *, keep: bool = True) -> pa.RecordBatch:
        with self._guard:
            found = self._groups.get((file.path, group))
            if found is not None:
                self._groups.move_to_end((file.path, group))
                return found
        opened = self._open(file)
        with self._asking(), self._explained(file.path):
            batch = opened.read_group(group)
        if keep:
            self._keep((file.path, group), batch)
        return batch

    def _keep(self, key: _Group, batch: pa.RecordBatch) -> None:
        with self._guard:
            if key in self._groups:
                return
            self._groups[key] = batch
            self._group_bytes += batch.nbytes
            while self._group_bytes > GROUP_BYTES_MAX and len(self._groups) > 1:
                self._group_bytes -= self._groups.popitem(last=False)[1].nbytes

    # Writing

    def write(self, path: str, body: pa.Buffer, content: FileContent) -> None:
        """Write a file, read it back, and verify that it has *content*.

        Raises:
            ColdTierUnavailable: the storage does not answer, or has not stored what it was given.
        """
        self._storage.write(path, body)
        try:
            if self.check(path) == content:
                return
            reason = "it does not have the events that were written"
        except (DamagedFileError, FileNotFoundError) as error:
            reason = str(error)
        raise ColdTierUnavailable(
            location=self.url, reason=f"{path} was written, and cannot be read back: {reason}", retry_after=60
        )

    def check(self, path: str, seen: Callable[[pa.RecordBatch], object] = lambda batch: None) -> FileContent:  # noqa: ARG005
        """Read a file whole, past everything in memory, and return what it has; *seen* is called with each row group.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            DamagedFileError: it is no whole file of a cold tier.
            FileNotFoundError: there is none.
        """
        return ColdFile(self._storage.open(path)).check(seen)

    def describe(self, file: ManifestFile) -> FileDescription:
        """Return what a file says of itself.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            ColdFileDamaged: the file does not have what it should.
        """
        return self._open(file).description

    def describe_path(self, path: str) -> FileDescription:
        """Return what a file says of itself that may not be in the manifest.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            DamagedFileError: it is no file of a cold tier.
            FileNotFoundError: there is none.
        """
        return ColdFile(self._storage.open(path)).description

    def remove(self, path: str) -> None:
        """Delete a file, if there is one, and forget what it had.

        Raises:
            ColdTierUnavailable: the storage does not answer.
        """
        self.forget(path)
        self._storage.remove(path)
        self.forget(path)

    def forget(self, path: str) -> None:
        """Forget what a file had."""
        with self._guard:
            self._files.pop(path, None)
            for partition_id, known in self._known.items():
                self._known[partition_id] = [each for each in known if each[1].path != path]
            for key in [key for key in self._groups if key[0] == path]:
                self._group_bytes -= self._groups.pop(key).nbytes

    def list(self) -> Iterator[tuple[str, int]]:
        """Yield the path and size of all events' files that lie here, whatever the manifest says.

        Raises:
            ColdTierUnavailable: the storage does not answer.
        """
        for each in self._storage.list():
            if each.path != MARK:
                yield each.path, each.size

    # Trouble

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Ask the storage, with few others at a time; do not ask just after it has failed."""
        with self._guard:
            away = self._away
        if away is not None and self._monotonic() < away[0]:
            raise ColdTierUnavailable(location=self.url, reason=away[1].fields["reason"], retry_after=5)
        if not self._turns.acquire(timeout=WAIT_SECONDS):
            raise ColdTierUnavailable(location=self.url, reason="others wait for it already", retry_after=2)
        try:
            yield
        except ColdTierUnavailable as error:
            with self._guard:
                self._away = self._monotonic() + AWAY_SECONDS, error
            raise
        finally:
            self._turns.release()

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise ColdFileDamaged(location=self.url, path=path, reason="it is not there") from None
        except DamagedFileError as error:
            raise ColdFileDamaged(location=self.url, path=path, reason=str(error)) from error
        except OSError as error:
            reason = " ".join(str(error).split())[:300]
            raise ColdTierUnavailable(location=self.url, reason=reason, retry_after=5) from error


def make_path(event_type: str, partition: int, start: int, stop: int) -> str:
    """Return the path of a new file, which no other has.

    >>> make_path("order.placed", 3, 0, 500)[:-21]
    'order.placed/3/00000000000000-00000000000500-'
    """
    return f"{event_type}/{partition}/{start:014}-{stop:014}-{secrets.token_hex(6)}.parquet"
