"""Reads and writes the files of one cold tier; caches recent reads in memory, within limits.

The manifest in the database maps offsets to files. It is cached for `KNOWN_SECONDS`, so that a reader of many pages
needs no connection to the database. During that time erased events may still be read.
"""

import re
import secrets
import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import pyarrow as pa

from penstock.cold.description import FileContent, FileDescription
from penstock.cold.parquet import (
    ColdFile,
    DamagedFileError,
    cut_bytes,
    leave_out,
    slice_offsets,
)
from penstock.cold.storage import MARK, ColdStorage, Mark, open_storage, read_mark
from penstock.core.registry.definition import NAME_PATTERN
from penstock.errors import ColdFileDamaged, ColdTierUnavailable, ColdTierUnsuitable, RequirementMissing
from penstock.storage.cold.loading import NotLoadedError
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.cold.rows import to_columns, to_lines
from penstock.storage.log.events import CHUNK_BYTES, Frame, KindFilter, StoredColumns, StoredLines

if TYPE_CHECKING:
    from penstock.cold.tables import ColdTables, FindType, TableFile

KNOWN_SECONDS: Final = 2.0
OPEN_FILES: Final = 256
"""Maximum number of cached footers."""
GROUP_BYTES_MAX: Final = 64 << 20
"""Maximum size of cached row groups, decoded, in bytes."""
READS_MAX: Final = 8
"""Maximum number of reads of the storage at a time, each in a thread."""
IDLE_SECONDS: Final = 10.0
"""A thread without reads ends after so long."""
AHEAD_MAX: Final = READS_MAX // 2
"""While this many reads are wanted, none is begun ahead of readers."""
WAITING_MAX: Final = 16
"""Maximum number of threads that wait for reads, and of wanted reads: more are refused at once."""
ANSWER_SECONDS: Final = 30.0
"""How long a thread waits for a read. It goes on: what it finds is in memory when the events are wanted again."""
WRITE_SECONDS: Final = 300.0
WRITE_RATE: Final = 128 << 10
"""Writing a file, or deleting one, may take so long, and a second more for so many bytes. Then it is refused."""
OVERDUE_MAX: Final = 2
"""While this many of these take longer than that, no more are begun."""
AWAY_SECONDS: Final = 2.0
"""For so long after a failure of the storage it is not asked again."""
Result = TypeVar("Result")
ANSWERS_MAX: Final = 100_000
"""Maximum number of cached answers about the first event since a time."""
_Group = tuple[str, int]
"""A row group: path and number."""


class _AbsentError(Exception):
    """The requested data is not in memory, and the caller does not wait for it."""


class ColdTier:
    """The files of one cold tier. Safe to use from many threads.

    Attributes:
        url: URL of its root, without credentials.
        id: The id of the database's cold tier; None until `attach`.
        tables: The tables that name its files; None: it has none.
    """

    def __init__(self, storage: ColdStorage, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.url = storage.url
        self.id: str | None = None
        self.tables: ColdTables | None = None
        self._storage = storage
        self._monotonic = monotonic
        self._reads: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._readers = 0
        """The threads that read, in the background: a read that never ends keeps no process alive."""
        self._asked: dict[object, Future[Any]] = {}
        """The wanted reads, by key: callers that want the same key share a read."""
        self._waiting = 0
        self.waiting_max = WAITING_MAX
        self._overdue: set[Future[Any]] = set()
        """Operations that continue after their callers have stopped waiting."""
        self._guard = threading.Lock()
        self._known: dict[int, list[tuple[float, ManifestFile]]] = {}
        self._files: OrderedDict[str, ColdFile] = OrderedDict()
        self._groups: OrderedDict[_Group, pa.RecordBatch] = OrderedDict()
        self._group_bytes = 0
        self._first_received: OrderedDict[tuple[str, int, int], int | None] = OrderedDict()
        self.failures = 0
        """The number of reads that the storage has not answered, or not with a valid file."""
        self._away: tuple[float, ColdTierUnavailable] | None = None
        self.while_waiting: Callable[[], AbstractContextManager[object]] = nullcontext
        """Surrounds each wait for the storage, so that a pool of threads gives others the turn of one that waits."""

    @classmethod
    def at(cls, url: str, *, has_tables: bool = False) -> "ColdTier":
        """Return the cold tier at *url*: see `penstock.cold.storage.open_storage`; nothing is connected yet.

        Raises:
            BadParameter: *url* names no storage.
            RequirementMissing: it *has_tables*, and delta-rs is missing.
        """
        tier = cls(open_storage(url))
        if has_tables:
            try:
                from penstock.cold.tables import ColdTables
            except ModuleNotFoundError as error:
                install = "install it: pip install 'penstock-hub[delta]'"
                needed = "deltalake, for the tables of a cold tier,"
                raise RequirementMissing(needed=needed, found="none", install=install) from error
            tier.tables = ColdTables(tier._storage)
        return tier

    # Whose it is

    def read_mark(self) -> str | None:
        """Return the id of the cold tier that lies here; None if there is none.

        Raises:
            ColdTierUnavailable: the storage does not answer.
        """
        return self._ask(MARK, self._read_mark)

    def _read_mark(self) -> str | None:
        with self._explain_errors(MARK):
            return read_mark(self._storage)

    def check_mark(self) -> None:
        """Check that what lies here is still what `attach` has found: a directory may be unmounted meanwhile.

        Raises:
            ColdTierUnavailable: no cold tier lies here, or the storage does not answer.
            ColdTierUnsuitable: the cold tier of another database lies here.
        """
        self._ask((MARK, "check"), self._check_mark)

    def _check_mark(self) -> None:
        mark = self._read_mark()
        if mark == self.id or self.id is None:
            return
        if mark is not None:
            raise ColdTierUnsuitable.of("cold-tier-of-another", location=self.url)
        reason = f"{MARK} is not there any more; if it is a mounted directory, mount it again"
        raise ColdTierUnavailable(location=self.url, reason=reason, retry_after=5)

    def write_mark(self, id: str) -> None:
        """Record whose cold tier lies here.

        Raises:
            ColdTierUnavailable: the storage does not answer.
        """
        self._storage.write(MARK, msgspec.json.encode(Mark(id)))

    # Reading

    def learn(self, file: ManifestFile) -> None:
        """Remember for `KNOWN_SECONDS` that a file has its range."""
        now = self._monotonic()
        with self._guard:
            known = [each for each in self._known.get(file.partition_id, ()) if each[0] > now]
            self._known[file.partition_id] = [*known, (now + KNOWN_SECONDS, file)]

    def recall(self, partition_id: int, start: int, stop: int) -> ManifestFile | None:
        """Return a remembered file that has a whole range; None: none has."""
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
        return self._read(file, start, stop, waits=True)

    def _read(self, file: ManifestFile, start: int, stop: int, *, waits: bool) -> tuple[pa.RecordBatch, int]:
        opened, stop = self._open(file, waits=waits), min(stop, file.stop)
        parts, size, at = list[pa.RecordBatch](), 0, start
        while at < stop:
            group, end = opened.find_group(at)
            end = min(stop, end)
            part = slice_offsets(self._read_group(file, group, waits=waits), at, end)
            self._read_ahead(file, opened, group)
            part, fits = cut_bytes(part, CHUNK_BYTES - size, is_first=not parts)
            parts.append(part)
            size += part.nbytes
            at = end if fits is None else fits
            if fits is not None:
                break
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts), at

    def read_lines(
        self, file: ManifestFile, start: int, stop: int, frame: Frame, kinds: KindFilter | None
    ) -> StoredLines:
        """Return events of a file as one value: see `LogRepository.read_lines`.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            ColdFileDamaged: the file does not have what it should.
        """
        return to_lines(*self.read(file, start, stop), frame, kinds)

    def recall_columns(
        self, file: ManifestFile, start: int, stop: int, separator: str, *, erased: Sequence[int] = ()
    ) -> StoredColumns:
        """Return what `LogRepository.read_columns` does without the offsets that are *erased*, if it is in memory.

        Raises:
            NotLoadedError: it is not.
        """
        batch, end = self._recall(file, start, stop)
        return to_columns(leave_out(batch, erased) if erased else batch, end, separator)

    def recall_lines(
        self,
        file: ManifestFile,
        start: int,
        stop: int,
        frame: Frame,
        kinds: KindFilter | None,
        *,
        erased: Sequence[int] = (),
    ) -> StoredLines:
        """Return what `read_lines` does without the offsets that are *erased*, if it is in memory.

        Raises:
            NotLoadedError: it is not.
        """
        batch, end = self._recall(file, start, stop)
        return to_lines(leave_out(batch, erased) if erased else batch, end, frame, kinds)

    def _recall(self, file: ManifestFile, start: int, stop: int) -> tuple[pa.RecordBatch, int]:
        try:
            return self._read(file, start, stop, waits=False)
        except _AbsentError:
            raise NotLoadedError(file.path, partial(self.read, file, start, stop)) from None

    def read_batches(self, file: ManifestFile) -> Iterator[pa.RecordBatch]:
        """Yield all events of a file.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            ColdFileDamaged: the file does not have what it should.
        """
        for group in range(self._open(file).group_count):
            yield self._read_group(file, group, keep=False)

    def recall_first_received(self, file: ManifestFile, start: int, at: int) -> int | None:
        """Return the offset of the first event from *start* on that was received at *at* or later; None: there is none.

        Raises:
            NotLoadedError: the part of the file that has it is not in memory.
        """
        wanted = file.path, start, at
        with self._guard:
            if wanted in self._first_received:
                return self._first_received[wanted]
        try:
            return self._find_first_received(file, start, at, waits=False)
        except _AbsentError:
            pass

        def load() -> None:
            found = self._find_first_received(file, start, at, waits=True)
            with self._guard:  # The answer, since not all row groups of many files fit into memory together.
                self._first_received[wanted] = found
                while len(self._first_received) > ANSWERS_MAX:
                    self._first_received.popitem(last=False)

        raise NotLoadedError(file.path, load)

    def _find_first_received(self, file: ManifestFile, start: int, at: int, *, waits: bool) -> int | None:
        opened = self._open(file, waits=waits)
        first = opened.find_group_since(at)
        if first is None:
            return None
        for group in range(max(first, opened.find_group(start)[0]), opened.group_count):
            batch = slice_offsets(self._read_group(file, group, waits=waits), start, file.stop)
            times = batch.column("received_at").cast(pa.int64()).to_pylist()
            row = bisect_left(times, at)
            if row < len(times):
                return int(batch.column("offset")[row].as_py())
        return None

    def _open(self, file: ManifestFile, *, waits: bool = True) -> ColdFile:
        with self._guard:
            found = self._files.get(file.path)
            if found is not None:
                self._files.move_to_end(file.path)
                return found
        if not waits:
            raise _AbsentError

        def read() -> ColdFile:
            with self._explain_errors(file.path):
                found = ColdFile(self._storage.open(file.path))
                described = found.description
                is_ours = described.tier == (self.id or described.tier) and described.stop >= file.stop
                if not (is_ours and file.path.startswith(make_prefix(described))):
                    raise DamagedFileError("it is another file than the one that was sealed")
            with self._guard:
                self._files[file.path] = found
                while len(self._files) > OPEN_FILES:
                    self._files.popitem(last=False)
            return found

        return self._ask(file.path, read)

    def _read_group(self, file: ManifestFile, group: int, *, keep: bool = True, waits: bool = True) -> pa.RecordBatch:
        with self._guard:
            found = self._groups.get((file.path, group))
            if found is not None:
                self._groups.move_to_end((file.path, group))
                return found
        if not waits:
            raise _AbsentError
        opened = self._open(file)
        return self._ask((file.path, group), partial(self._load_group, file, opened, group, keep=keep))

    def _load_group(self, file: ManifestFile, opened: ColdFile, group: int, *, keep: bool = True) -> pa.RecordBatch:
        with self._explain_errors(file.path):
            batch = opened.read_group(group)
        if keep:
            self._keep((file.path, group), batch)
        return batch

    def _read_ahead(self, file: ManifestFile, opened: ColdFile, group: int) -> None:
        """Begin to read the row group after *group*, if the one before it is in memory, as for a sequential reader."""
        wanted = file.path, group + 1
        with self._guard:
            is_wanted = group + 1 < opened.group_count and wanted not in self._groups and wanted not in self._asked
            reads_on = not group or (file.path, group - 1) in self._groups
            if is_wanted and reads_on and len(self._asked) < AHEAD_MAX and self._find_away() is None:
                self._begin(wanted, partial(self._load_group, file, opened, group + 1))

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
        """Write a file, read it back, and verify that it has *content*, and that the cold tier is still the same.

        Raises:
            ColdTierUnavailable: the storage does not answer, or not in time, or has not stored what it was given. A
                file that is written later nevertheless is deleted.
            ColdTierUnsuitable: the cold tier of another database lies here.
        """
        seconds = WRITE_SECONDS + len(body) / WRITE_RATE
        self._limit(seconds, partial(self._write, path, body, content), partial(self._storage.remove, path))

    def _write(self, path: str, body: pa.Buffer, content: FileContent) -> None:
        self._check_mark()
        self._storage.write(path, body)
        try:
            if self.check(path) == content:
                return self._check_mark()
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

    def find_typed_type(self, file: ManifestFile) -> pa.StructType | None:
        """Return the type of a file's typed columns; None if it has none.

        Raises:
            ColdTierUnavailable: the storage does not answer.
            ColdFileDamaged: the file does not have what it should.
        """
        return self._open(file).typed_type

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
        self._limit(WRITE_SECONDS, partial(self._storage.remove, path))
        self.forget(path)

    def find_stale_tables(self, wanted: Mapping[str, Collection[str]]) -> Sequence[str]:
        """Return what `ColdTables.find_stale` does, in limited time.

        Raises:
            ColdTierUnavailable: the storage does not answer.
        """
        assert self.tables is not None
        return self._limit(WRITE_SECONDS, partial(self.tables.find_stale, wanted))

    def update_table(self, name: str, find_files: "Callable[[], Sequence[TableFile]]", find_type: "FindType") -> None:
        """Do what `ColdTables.update` does, in limited time.

        Raises:
            Exception: see there; ColdTierUnavailable, if it takes longer.
        """
        assert self.tables is not None
        self._limit(WRITE_SECONDS, partial(self.tables.update, name, find_files, find_type))

    def list_open(self) -> set[str]:
        """Return the paths of the open files, parts of which are in memory."""
        with self._guard:
            return {*self._files, *(path for path, _ in self._groups)}

    def forget(self, path: str) -> None:
        """Remove the contents of a file from memory."""
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

    def _ask(self, key: object, read: Callable[[], Result]) -> Result:
        """Return what *read* finds at the storage; do not ask just after it has failed.

        Raises:
            ColdTierUnavailable: the storage has failed, or does not answer in time, or others wait for it already.
        """
        with self._guard:
            away = self._find_away()
            if away is not None:
                raise ColdTierUnavailable(location=self.url, reason=away.fields["reason"], retry_after=5)
            future: Future[Result] | None = self._asked.get(key)
            if self._waiting >= WAITING_MAX or (future is None and len(self._asked) >= WAITING_MAX):
                raise ColdTierUnavailable(location=self.url, reason="others wait for it already", retry_after=2)
            self._waiting += 1
            if future is None:
                future = self._begin(key, read)
        try:
            with self.while_waiting():
                return future.result(ANSWER_SECONDS)
        except TimeoutError:
            reason = f"it has not answered within {ANSWER_SECONDS:g} seconds"
            raise self._note_away(ColdTierUnavailable(location=self.url, reason=reason, retry_after=5)) from None
        finally:
            with self._guard:
                self._waiting -= 1

    def _begin(self, key: object, read: Callable[[], Result]) -> "Future[Result]":
        future: Future[Result] = Future()
        self._asked[key] = future
        self._reads.put(partial(self._answer, key, future, read))
        if self._readers < min(len(self._asked), READS_MAX):
            self._readers += 1
            threading.Thread(target=self._run_reads, name="penstock-cold-read", daemon=True).start()
        return future

    def _run_reads(self) -> None:
        """Read what is asked for, until nothing was for a while."""
        while True:
            try:
                read = self._reads.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._guard:
                    if self._reads.empty():
                        self._readers -= 1
                        return
            else:
                read()
                del read  # It has its file, which stays open otherwise while the thread waits.

    def _answer(self, key: object, future: "Future[Result]", read: Callable[[], Result]) -> None:
        """Read, and pass the result to all waiting callers."""
        try:
            found = read()
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            with self._guard:
                self.failures += 1
            if isinstance(error, ColdTierUnavailable):
                self._note_away(error)
            self._end(key)
            future.set_exception(error)
        else:
            self._end(key)
            future.set_result(found)

    def _end(self, key: object) -> None:
        with self._guard:
            self._asked.pop(key, None)

    def _limit(self, seconds: float, act: Callable[[], Result], undo: Callable[[], object] = lambda: None) -> Result:
        """Return the result of *act*; if it goes on for longer than *seconds*, *undo* is called once it has ended.

        Raises:
            ColdTierUnavailable: it takes longer, or others do.
        """
        with self._guard:
            if len(self._overdue) >= OVERDUE_MAX:
                reason = "it has not finished what was asked of it before"
                raise ColdTierUnavailable(location=self.url, reason=reason, retry_after=60)
        future: Future[Result] = Future()

        def run() -> None:
            try:
                future.set_result(act())
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                future.set_exception(error)
            with self._guard:
                is_overdue = future in self._overdue
            if is_overdue:
                with suppress(ColdTierUnavailable):
                    undo()
                with self._guard:
                    self._overdue.remove(future)

        threading.Thread(target=run, name="penstock-cold-write", daemon=True).start()
        with suppress(TimeoutError):
            return future.result(seconds)
        with self._guard:
            if not future.done():
                self._overdue.add(future)
                reason = f"it has not finished within {seconds:g} seconds"
                raise ColdTierUnavailable(location=self.url, reason=reason, retry_after=60)
        return future.result()

    def _find_away(self) -> ColdTierUnavailable | None:
        """Return the failure for which the storage is not asked now."""
        until, error = self._away or (0.0, None)
        return error if self._monotonic() < until else None

    def _note_away(self, error: ColdTierUnavailable) -> ColdTierUnavailable:
        with self._guard:
            self._away = self._monotonic() + AWAY_SECONDS, error
        return error

    @contextmanager
    def _explain_errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            self.forget(path)
            self._check_mark()
            raise ColdFileDamaged(location=self.url, path=path, reason="it is not there") from None
        except DamagedFileError as error:
            self.forget(path)
            raise ColdFileDamaged(location=self.url, path=path, reason=str(error)) from error
        except OSError as error:
            reason = " ".join(str(error).split())[:300]
            raise ColdTierUnavailable(location=self.url, reason=reason, retry_after=5) from error


_PATH: Final = re.compile(rf"{NAME_PATTERN}/\d{{1,5}}/\d{{14,}}-\d{{14,}}-[0-9a-f]{{12}}\.parquet", re.ASCII)


def is_path(path: str) -> bool:
    """Return whether a path is one that `make_path` makes."""
    return _PATH.fullmatch(path) is not None


def find_stop(path: str) -> int:
    """Return the offset after the range that a file was written for, as its path says."""
    return int(path.rpartition("/")[2].split("-")[1])


def make_prefix(described: FileDescription) -> str:
    """Return the beginning of the paths of files with the description *described*."""
    return f"{described.event_type}/{described.partition}/{described.start:014}-"


def make_path(event_type: str, partition: int, start: int, stop: int) -> str:
    """Return the path of a new file, which no other has.

    >>> make_path("order.placed", 3, 0, 500)[:-20]
    'order.placed/3/00000000000000-00000000000500-'
    """
    return f"{event_type}/{partition}/{start:014}-{stop:014}-{secrets.token_hex(6)}.parquet"
