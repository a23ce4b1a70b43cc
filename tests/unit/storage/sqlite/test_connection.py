import fcntl
import sqlite3
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import DatabaseUnavailable, OutcomeUnknown, WrongTransaction
from penstock.storage.sqlite import connection as connecting
from penstock.storage.sqlite.connection import PAGE_BYTES, VALUE_BYTES_MAX, Readers, Writer, connect
from tests.failing import has_code


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hub.db"


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    writer = Writer(path)
    with writer.transaction() as connection:
        connection.execute("CREATE TABLE noted (n INTEGER)")
    yield writer
    writer.close()


@pytest.fixture
def readers(path: Path, writer: Writer) -> Iterator[Readers]:
    readers = Readers(path)
    yield readers
    readers.close()


def note(writer: Writer, n: int) -> None:
    with writer.transaction() as connection:
        connection.execute("INSERT INTO noted VALUES (?)", (n,))


def noted(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM noted ORDER BY rowid")]


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


class TestConnecting:
    def test_connection_syncs_each_commit_in_wal_mode(self, path: Path) -> None:
        with closing(connect(path)) as connection:
            found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

        assert found == ["wal", 2]

    def test_new_file_has_large_pages_and_existing_file_keeps_its_page_size(self, path: Path) -> None:
        old = path.with_name("old.db")
        with closing(sqlite3.connect(old)) as service:
            service.execute("PRAGMA page_size = 4096")
            service.execute("CREATE TABLE orders (id INTEGER)")

        sizes = []
        for each in (path, old):
            with closing(connect(each)) as connection:
                connection.execute("CREATE TABLE anything (n INTEGER)")
                sizes.append(connection.execute("PRAGMA page_size").fetchone()[0])

        assert sizes == [PAGE_BYTES, 4096]


class TestReaders:
    def test_connection_is_reused_and_lent_to_one_reader_at_a_time(self, readers: Readers) -> None:
        with readers.lend() as first, readers.lend() as second:
            assert first is not second
        with readers.lend() as again:
            assert again in (first, second)

    def test_connection_with_a_database_error_is_closed(self, readers: Readers) -> None:
        with pytest.raises(sqlite3.OperationalError), readers.lend() as first:
            first.execute("SELEKT 1")

        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            first.execute("SELECT 1")
        with readers.lend() as again:
            assert again is not first

    def test_connection_is_reused_after_another_error(self, readers: Readers) -> None:
        with pytest.raises(ZeroDivisionError), readers.lend() as first:
            raise ZeroDivisionError

        with readers.lend() as again:
            assert again is first

    def test_connection_lent_at_the_close_is_closed_when_it_comes_back(self, readers: Readers) -> None:
        with readers.lend() as lent:
            readers.close()
            assert lent.execute("SELECT 1").fetchone() == (1,)

        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            lent.execute("SELECT 1")

    def test_value_too_large_for_a_chunk_is_refused(self, readers: Readers) -> None:
        with readers.lend() as connection, pytest.raises(sqlite3.DataError) as told:
            connection.execute("SELECT zeroblob(?)", (VALUE_BYTES_MAX + 1,)).fetchone()

        assert told.value.sqlite_errorname == "SQLITE_TOOBIG"


class TestWriter:
    def test_failed_commit_is_rolled_back_and_the_next_one_succeeds(self, writer: Writer, path: Path) -> None:
        with writer.transaction() as connection:
            connection.execute("CREATE TABLE owner (id INTEGER PRIMARY KEY)")
            connection.execute("CREATE TABLE owned (id REFERENCES owner DEFERRABLE INITIALLY DEFERRED)")

        with pytest.raises(sqlite3.IntegrityError), writer.transaction() as connection:
            connection.execute("INSERT INTO owned VALUES (-1)")  # Which is looked at only at the commit.
        note(writer, 2)

        assert noted(path) == [2]

    def test_writer_has_the_lock_file_exclusively(self, writer: Writer, path: Path) -> None:
        with Path(f"{path}-queue").open() as queue:
            with writer.transaction(), pytest.raises(BlockingIOError):
                fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)

            fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_writers_of_several_processes_lose_nothing(self, writer: Writer, path: Path) -> None:
        others = [Writer(path) for _ in range(3)]  # Each opens the lock file anew, as another process does.
        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(note, each, n) for n in range(25) for each in (writer, *others)]:
                done.result(300)
        for other in others:
            other.close()

        assert sorted(noted(path)) == sorted([*range(25)] * 4)

    def test_lock_of_this_process_is_reported_to_a_possible_holder(
        self, writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connecting, "HELD_HERE_SECONDS", 0.01)
        with closing(sqlite3.connect(path, isolation_level=None)) as service:
            service.execute("BEGIN IMMEDIATE")

            with (
                pytest.raises(WrongTransaction, check=has_code("inside-transaction")),
                writer.transaction(patient=False),
            ):
                pass

            service.execute("ROLLBACK")
        note(writer, 1)
        assert noted(path) == [1]

    def test_patient_writer_is_unavailable_after_the_busy_timeout(
        self, writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connecting, "HELD_HERE_SECONDS", 0.01)
        monkeypatch.setattr(connecting, "BUSY_TIMEOUT", 0.05)
        with closing(sqlite3.connect(path, isolation_level=None)) as service:
            service.execute("BEGIN IMMEDIATE")

            with pytest.raises(DatabaseUnavailable, match="SQLITE_BUSY"), writer.transaction():
                pass

    @pytest.mark.parametrize(
        "content",
        [b"", b"\x00", b"\xff" * 16, struct.pack("<dd", 1e300, 1e300), struct.pack("<dd", -1.0, float("nan"))],
    )
    def test_garbage_in_the_lock_file_is_overwritten(self, writer: Writer, path: Path, content: bytes) -> None:
        Path(f"{path}-queue").write_bytes(content)

        for n in range(3):
            note(writer, n)

        assert noted(path) == [0, 1, 2]
        left_at, busy_since = struct.unpack("<dd", Path(f"{path}-queue").read_bytes())
        assert busy_since <= left_at <= time.monotonic(), "one that lies ahead would end all pauses"

    def test_lock_file_has_the_time_of_the_last_write(self, writer: Writer, path: Path) -> None:
        before = time.monotonic()
        note(writer, 1)

        left_at, _ = struct.unpack("<dd", Path(f"{path}-queue").read_bytes())
        assert before <= left_at <= time.monotonic()

    def test_writer_can_be_closed_twice_and_used_again(self, writer: Writer, path: Path) -> None:
        files = open_files()
        writer.close()
        writer.close()
        assert open_files() < files

        note(writer, 1)

        assert noted(path) == [1]


class _FailingToSync(sqlite3.Connection):
    """As on a disk that fails when a commit is to be synced."""

    def execute(self, sql: str, /, *given: object) -> sqlite3.Cursor:
        if sql == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_FSYNC"  # type: ignore[misc]
            raise error
        return super().execute(sql, *given)


def test_commit_with_a_failed_sync_has_an_unknown_outcome(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: Path) -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=_FailingToSync)

    monkeypatch.setattr(connecting, "connect", opened)
    with (
        closing(Writer(path)) as writer,
        pytest.raises(OutcomeUnknown, match="disk I/O error"),
        writer.transaction() as connection,
    ):
        connection.execute("CREATE TABLE noted (n INTEGER)")


@pytest.mark.parametrize("replaced", [False, True])
def test_write_to_a_moved_file_is_refused(writer: Writer, path: Path, replaced: bool) -> None:
    note(writer, 1)
    path.rename(path.with_name("moved.db"))
    if replaced:
        path.touch()

    with pytest.raises(DatabaseUnavailable, match="was moved or removed"):
        note(writer, 2)

    path.unlink(missing_ok=True)
    path.with_name("moved.db").rename(path)
    note(writer, 3)
    with writer.transaction() as connection:
        assert [n for (n,) in connection.execute("SELECT n FROM noted")] == [1, 3]


def test_write_to_a_removed_write_ahead_log_is_refused(writer: Writer, path: Path) -> None:
    note(writer, 1)
    path.with_name(f"{path.name}-wal").unlink()

    with pytest.raises(DatabaseUnavailable, match="-wal was moved or removed"):
        note(writer, 2)


def test_reader_leaves_the_file_unchanged(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.db"
    with closing(sqlite3.connect(theirs)) as connection:
        connection.execute("CREATE TABLE theirs (n INTEGER)")
    before = theirs.read_bytes()

    with closing(Readers(theirs)) as readers, readers.lend() as connection:
        assert connection.execute("SELECT count(*) FROM theirs").fetchone() == (0,)

    assert theirs.read_bytes() == before
