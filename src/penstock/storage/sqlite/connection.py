"""Connections to one SQLite file: readers lent out, one writer that queues with the writers of other processes."""

import fcntl
import os
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.errors import DatabaseUnavailable, InsideTransaction, OutcomeUnknown, Unavailable
from penstock.storage.sqlite.errors import translated
from penstock.storage.store import CHUNK_BYTES

BUSY_TIMEOUT = 10.0
CACHE_KIB = 2_048
"""Of each connection. Measured: pages that go through memory that the processor still has in its own cache are read a
third faster than through 64 MiB; what is read again comes from the system's cache."""
PAGE_BYTES = 16_384
"""Of a file that is made here. Measured on pages of 384-byte events: a third faster to read than SQLite's 4096."""

VALUE_BYTES_MAX = 2 * CHUNK_BYTES
"""No value that a reader makes is larger: it is how SQLite tells that a range is too large for a chunk."""

HELD_HERE_SECONDS = 1.0
"""After so long a wait it is asked whether this very process holds the file."""

BREATH_SECONDS = 0.030
BREATH_INTERVAL = 0.100
"""SQLite's own waiting looks again after at most 25 ms during its first 130 ms: a pause of 30 ms in every 100 is sure
to be seen by a service that waits for its turn."""


def connect(path: Path, *, writes: bool = True) -> sqlite3.Connection:
    """Open *path*, made if missing, with the durability that success stands for: WAL and an fsync for every commit.

    Who only looks leaves the file as it is: it may be another application's.
    """
    with translated():
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


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Have SQLite write ahead. It does not wait for this: who opens a new file at the same moment is in the way."""
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


_TURN: Final = struct.Struct("<dd")
"""By the machine's monotonic clock, which all its processes share: when the file was left, since when it is busy."""


class Readers:
    """Connections for looking; as many as threads look at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for as long as the block runs."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self._path, writes=False)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        try:
            with translated():
                yield connection
        except (Unavailable, sqlite3.DatabaseError):
            connection.close()
            raise
        except BaseException:
            self._take_back(connection)
            raise
        self._take_back(connection)

    def close(self) -> None:
        """Close them: those that are lent as soon as they come back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _take_back(self, connection: sqlite3.Connection) -> None:
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)


class Writer:
    """The one connection of this process that writes.

    Hub processes on one file queue on a lock file, first come first served, because SQLite's own waiting starves. A
    service beside them does not know that file: while its commits are seen, the queue's head pauses now and then. When
    the file was last left, and since when it has not been left for long, stands in that file: one hub's wait for its
    turn is no pause while another one writes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None
        self._queue: int | None = None
        self._version = 0
        self._others_seen_at = -1e9
        self._busy_since = 0.0

    @contextmanager
    def transaction(self, *, patient: bool = True) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction: committed when it ends, undone when it raises."""
        with self._turn, translated():
            connection = self._opened()
            assert self._queue is not None
            fcntl.flock(self._queue, fcntl.LOCK_EX)
            try:
                self.check_file()
                self._breathe(connection)
                self._begin(connection, patient)
                try:
                    yield connection
                    _commit(connection)
                    self._log = self._log or _file_at(_log_of(self._path))
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            finally:
                os.pwrite(self._queue, _TURN.pack(time.monotonic(), self._busy_since), 0)
                fcntl.flock(self._queue, fcntl.LOCK_UN)

    def check_file(self) -> None:
        """Raise DatabaseUnavailable where a file that is open is not the one at its path any more.

        What is written to a file without a name is lost with the process.
        """
        for path, opened in ((self._path, self._file), (_log_of(self._path), self._log)):
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

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._path)
            self._file = _file_at(self._path)
            self._version = self._data_version(self._connection)
        if self._queue is None:
            self._queue = os.open(f"{self._path}-queue", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        return self._connection

    def _begin(self, connection: sqlite3.Connection, patient: bool) -> None:
        """Begin to write; tell one who may hold the database itself, instead of waiting with it for nothing."""
        for timeout in (BUSY_TIMEOUT,) if patient else (HELD_HERE_SECONDS, BUSY_TIMEOUT):
            connection.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if timeout == BUSY_TIMEOUT or getattr(error, "sqlite_errorname", "") != "SQLITE_BUSY":
                    raise
                if _held_by_this_process(self._path):
                    raise InsideTransaction from error
            else:
                return

    def _breathe(self, connection: sqlite3.Connection) -> None:
        now = time.monotonic()
        if (version := self._data_version(connection)) != self._version:
            self._version, self._others_seen_at = version, now
        assert self._queue is not None
        turn = os.pread(self._queue, _TURN.size, 0)
        left_at, self._busy_since = _TURN.unpack(turn) if len(turn) == _TURN.size else (0.0, 0.0)
        if not 0 <= now - left_at <= BREATH_SECONDS:  # Times of before the machine was started may lie ahead.
            self._busy_since = now
        if now - self._others_seen_at < 60 and now - self._busy_since > BREATH_INTERVAL:
            time.sleep(BREATH_SECONDS)
            self._busy_since = time.monotonic()

    @staticmethod
    def _data_version(connection: sqlite3.Connection) -> int:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        return int(version)


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _log_of(path: Path) -> Path:
    """Return the write-ahead log, which is there for as long as anybody has the file open."""
    return path.with_name(f"{path.name}-wal")


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "").startswith("SQLITE_IOERR"):
            # It may lie whole in the write-ahead log, and be found there after a crash, though the disk did not say so.
            raise OutcomeUnknown(reason=str(error)) from error
        raise


def _held_by_this_process(path: Path) -> bool:
    """Tell whether this process holds SQLite's write lock, byte 120 of the shared-memory file (sqlite.org/walformat).

    Looked up in /proc/locks, since opening and closing that file would drop the very locks; False where there is none.
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
