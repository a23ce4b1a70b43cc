"""Connections to one SQLite file: a pool of readers, and one writer that queues with those of other processes.

`translate_errors` is the only place that knows the codes of SQLite's errors.
"""

import fcntl
import os
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE
from typing import Final

from penstock.errors import (
    DatabaseUnavailable,
    DatabaseUnsuitable,
    DiskFull,
    OutcomeUnknown,
    Unavailable,
    WrongTransaction,
)
from penstock.storage.log.events import CHUNK_BYTES
from penstock.storage.sqlite import SQLITE
from penstock.storage.store import ConnectionCounts

BUSY_TIMEOUT = 10.0
CACHE_KIB = 2_048
"""Page cache of each connection. Measured: reads are a third faster than with 64 MiB, since the cache stays in the
processor's; repeated reads come from the system's page cache."""
PAGE_BYTES = 16_384
"""Page size of a new file. Measured with 384-byte events: reads are a third faster than with SQLite's 4096."""

VALUE_BYTES_MAX = 2 * CHUNK_BYTES
"""Largest value that a reader can build; SQLite refuses a larger one, which means that a range exceeds a chunk."""

HELD_HERE_SECONDS = 1.0
"""A writer that has waited this long checks whether its own process locks the file."""

LOOK_INTERVAL = 0.020
"""The interval at which the writer looks whether others write to the file."""
BREATH_SECONDS = 0.030
BREATH_INTERVAL = 0.100
"""SQLite's busy handler retries after at most 25 ms during its first 130 ms, so a service that waits finds a pause of
30 ms in every 100 ms."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise Penstock's errors for those of SQLite.

    Raises:
        DiskFull: the disk is full; nothing was written.
        DatabaseUnavailable: locked too long, damaged, or the file cannot be read or written now.
        DatabaseUnsuitable: a table does not exist.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        if (translation := _translate(error)) is None:
            raise
        raise translation from error


def _translate(error: sqlite3.DatabaseError) -> Unavailable | DatabaseUnsuitable | None:
    """Return Penstock's error for *error*; None if *error* is not about the state of the database."""
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_NOTADB":
        reason = f"the file is not a SQLite database, or its beginning is damaged: {error} ({name})"
        return DatabaseUnavailable(reason=reason, retry_after=60)
    if name.startswith("SQLITE_CORRUPT"):
        return DatabaseUnavailable(reason=f"the file is damaged, put a backup back: {error} ({name})", retry_after=60)
    if name in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"):  # The latter: no space for the index of the write-ahead log.
        return DiskFull(reason=str(error), retry_after=5)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")):
        return DatabaseUnavailable(reason=f"{error} ({name})", retry_after=1)
    if "no such table: penstock_" in str(error):
        return DatabaseUnsuitable.of("schema-missing", found=0, wanted=SQLITE.version)
    return None


def connect(path: Path, *, writes: bool = True) -> sqlite3.Connection:
    """Open *path*, create it if missing, and set WAL and an fsync for every commit.

    The owner alone may read and write a file that is created. A connection that does not write leaves the file as it
    is: it may belong to another application.
    """
    _create(path)
    with translate_errors():
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        if writes:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            _write_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return connection


def _create(path: Path) -> None:
    """Create an empty file with mode 0600 at *path*, unless there is one; SQLite gives its logs the same mode.

    An existing file is not opened: closing it would release the locks that SQLite has on it in this process.
    """
    with suppress(OSError):  # It exists, or SQLite says in a moment why it cannot be created.
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Set WAL mode; retry while another process opens the file, since SQLite does not wait for the lock."""
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorname", "") != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return


TIMED_STEPS: Final = 100_000
"""SQLite checks after this many instructions, about a millisecond, whether a statement has to end."""


@contextmanager
def limit_time(connection: sqlite3.Connection, timeout: float | None) -> Iterator[None]:
    """End statements of the block that go on after *timeout* seconds; None limits nothing.

    Raises:
        Unavailable: a statement was ended.
    """
    if timeout is None:
        yield
        return
    deadline = time.monotonic() + timeout
    connection.set_progress_handler(lambda: time.monotonic() > deadline, TIMED_STEPS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "") != "SQLITE_INTERRUPT":
            raise
        raise Unavailable(reason=f"a statement took longer than {timeout:g} s", retry_after=1) from error
    finally:
        connection.set_progress_handler(None, 0)


_TURN: Final = struct.Struct("<dd")
"""Two times of the machine's monotonic clock, which its processes share: end of the last turn, start of business."""


class Readers:
    """Pool of connections that read; it grows to as many as threads read at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._opened = 0
        self._guard = threading.Lock()
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection while the block runs."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self._path, writes=False)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
            self._count_opened(1)
        try:
            with translate_errors():
                yield connection
        except (Unavailable, sqlite3.DatabaseError):
            self._close(connection)
            raise
        except BaseException:
            self._take_back(connection)
            raise
        self._take_back(connection)

    def close(self) -> None:
        """Close the connections; a lent one is closed when it comes back."""
        self._closed = True
        while self._idle:
            self._close(self._idle.pop())

    def count(self) -> ConnectionCounts:
        """Return how many connections there are."""
        return ConnectionCounts(self._opened, len(self._idle), None, 0)

    def _take_back(self, connection: sqlite3.Connection) -> None:
        if self._closed:
            self._close(connection)
        else:
            self._idle.append(connection)

    def _close(self, connection: sqlite3.Connection) -> None:
        connection.close()
        self._count_opened(-1)

    def _count_opened(self, change: int) -> None:
        with self._guard:
            self._opened += change


class Writer:
    """The only connection of this process that writes.

    Hub processes on one file queue on a lock file, first come first served, because SQLite's busy handler starves. A
    service does not know the lock file, so the first in the queue pauses now and then while such a service commits. The
    lock file records the end of the last turn, and since when turns have followed each other without a pause: the time
    that one hub waits for its turn is no pause while another hub writes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file_path, self._log_path = str(path), str(log_of(path))
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None
        self._queue: int | None = None
        self._timeout = 0.0
        """The busy timeout of the connection."""
        self._version = 0
        self._looked_at = -1e9
        """When `_version` was read."""
        self._others_seen_at = -1e9
        self._busy_since = 0.0

    @contextmanager
    def transaction(self, *, patient: bool = True) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction, which is rolled back if the block raises."""
        with self._turn, translate_errors():
            connection = self._open()
            assert self._queue is not None
            fcntl.flock(self._queue, fcntl.LOCK_EX)
            try:
                self.check_file()
                self._breathe(connection)
                self._begin(connection, patient)
                try:
                    yield connection
                    _commit(connection)
                    self._log = self._log or _file_at(self._log_path)
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            finally:
                os.pwrite(self._queue, _TURN.pack(time.monotonic(), self._busy_since), 0)
                fcntl.flock(self._queue, fcntl.LOCK_UN)

    def check_file(self) -> None:
        """Raise DatabaseUnavailable if an open file is no longer the one at its path.

        Writes to a file without a name are lost with the process.
        """
        for path, opened in ((self._file_path, self._file), (self._log_path, self._log)):
            if opened is not None and _file_at(path) != opened:
                raise DatabaseUnavailable(reason=f"{path} was moved or removed: start the hub anew", retry_after=5)

    def close(self) -> None:
        """Close the connection and leave the queue."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = self._file = self._log = None
            if self._queue is not None:
                os.close(self._queue)
                self._queue = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._path)
            self._timeout = BUSY_TIMEOUT
            self._file = _file_at(self._file_path)
            self._version = self._data_version(self._connection)
        if self._queue is None:
            self._queue = _open_queue(self._path)
        return self._connection

    def _begin(self, connection: sqlite3.Connection, patient: bool) -> None:
        """Begin a write transaction; raise InsideTransaction if this process locks the file and *patient* is false."""
        for timeout in (BUSY_TIMEOUT,) if patient else (HELD_HERE_SECONDS, BUSY_TIMEOUT):
            if timeout != self._timeout:
                connection.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")
                self._timeout = timeout
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if timeout == BUSY_TIMEOUT or getattr(error, "sqlite_errorname", "") != "SQLITE_BUSY":
                    raise
                if _held_by_this_process(self._path):
                    raise WrongTransaction.of("inside-transaction") from error
            else:
                return

    def _breathe(self, connection: sqlite3.Connection) -> None:
        now = time.monotonic()
        if now - self._looked_at > LOOK_INTERVAL:
            self._looked_at = now
            if (version := self._data_version(connection)) != self._version:
                self._version, self._others_seen_at = version, now
        assert self._queue is not None
        turn = os.pread(self._queue, _TURN.size, 0)
        left_at, self._busy_since = _TURN.unpack(turn) if len(turn) == _TURN.size else (0.0, 0.0)
        if not 0 <= now - left_at <= BREATH_SECONDS:  # Times from before a restart of the machine may lie ahead.
            self._busy_since = now
        if now - self._others_seen_at < 60 and now - self._busy_since > BREATH_INTERVAL:
            time.sleep(BREATH_SECONDS)
            self._busy_since = time.monotonic()

    @staticmethod
    def _data_version(connection: sqlite3.Connection) -> int:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        return int(version)


def _file_at(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - It is called for each transaction, and takes a third of the time.
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open_queue(path: Path) -> int:
    """Open the lock file of the database at *path*; a new one has its mode and, for root, its owner, as SQLite's logs.

    So users who may write the database may queue for it, and others cannot block the hub.
    """
    database = path.stat()
    queue = os.open(f"{path}-queue", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, S_IMODE(database.st_mode) & 0o666)
    if os.fstat(queue).st_size == 0:
        with suppress(PermissionError):  # Another user has just created it.
            os.fchmod(queue, S_IMODE(database.st_mode) & 0o666)
            os.fchown(queue, database.st_uid, database.st_gid)
    return queue


def log_of(path: Path) -> Path:
    """Return the path of the write-ahead log, which exists while any process has the file open."""
    return path.with_name(f"{path.name}-wal")


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "").startswith("SQLITE_IOERR"):
            # The commit may be complete in the write-ahead log and survive a crash, though the disk reported an error.
            raise OutcomeUnknown(reason=str(error)) from error
        raise


def _held_by_this_process(path: Path) -> bool:
    """Return whether this process holds SQLite's write lock, byte 120 of the shared-memory file.

    See https://sqlite.org/walformat.html. Read from /proc/locks, since opening and closing the file would release the
    locks; False on systems without it.
    """
    try:
        inode = Path(f"{path}-shm").stat().st_ino
        locks = Path("/proc/locks").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    held = (line.split() for line in locks if "POSIX" in line and "WRITE" in line)
    return any(
        int(pid) == os.getpid() and place.endswith(f":{inode}") and int(start) <= 120 <= int(end)
        for *_, pid, place, start, end in held
        if end != "EOF"
    )
