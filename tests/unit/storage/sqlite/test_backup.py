"""A copy of a SQLite file is one snapshot, is checked, and is marked."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import DatabaseUnavailable
from penstock.storage.sqlite.backup import STEP_PAGES, check_copy, copy_database, find_mark, mark_backup
from penstock.storage.sqlite.connection import PAGE_BYTES, connect

STEPS = 3


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file that is copied in three steps."""
    path = tmp_path / "source.db"
    with closing(connect(path)) as connection:
        connection.execute("CREATE TABLE t (n INTEGER, x TEXT)")
        connection.execute("CREATE INDEX by_n ON t (n)")
        rows = ((n, "x" * PAGE_BYTES) for n in range((STEPS - 1) * STEP_PAGES + STEP_PAGES // 2))
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        connection.execute("COMMIT")
    return path


def count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])


def test_copy_holds_one_snapshot_and_does_not_start_again_when_others_commit(source: Path, tmp_path: Path) -> None:
    before = count(source)
    reports = []
    with closing(connect(source)) as other:

        def report(done: int, total: int) -> None:
            reports.append((done, total))
            other.execute("INSERT INTO t VALUES (-1, 'later')")

        copy_database(source, tmp_path / "copy.db", report)

    assert count(tmp_path / "copy.db") == before
    assert count(source) == before + len(reports)
    assert len(reports) == STEPS
    assert reports == sorted(reports)
    assert len({total for _, total in reports}) == 1
    assert reports[-1][0] == reports[-1][1] >= before * PAGE_BYTES


def test_copy_ends_when_its_report_raises(source: Path, tmp_path: Path) -> None:
    def report(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_database(source, tmp_path / "copy.db", report)

    with closing(connect(source)) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "the snapshot is still held"


def test_mark_survives_marking_again_and_leaves_one_file(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy_database(source, copy, lambda *_: None)
    mark_backup(copy)
    with closing(sqlite3.connect(copy)) as connection:
        made_at = find_mark(connection)
        connection.execute("UPDATE penstock_backup SET made_at = '2026-01-01T00:00:00Z'")
        connection.commit()
    mark_backup(copy)

    with closing(sqlite3.connect(copy)) as connection:
        assert made_at is not None
        assert find_mark(connection) == "2026-01-01T00:00:00Z"
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert list(tmp_path.glob("copy.db*")) == [copy]
    with closing(sqlite3.connect(source)) as connection:
        assert find_mark(connection) is None


def test_sound_copy_is_accepted_without_files_beside_it(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy_database(source, copy, lambda *_: None)

    check_copy(copy)

    assert list(tmp_path.glob("copy.db*")) == [copy]


@pytest.mark.parametrize("page", ["table", "index"])
def test_damaged_copy_is_refused(source: Path, tmp_path: Path, page: str) -> None:
    copy = tmp_path / "copy.db"
    copy_database(source, copy, lambda *_: None)
    with closing(sqlite3.connect(copy)) as connection:
        name = "t" if page == "table" else "by_n"
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    with copy.open("r+b") as file:
        file.seek((root - 1) * PAGE_BYTES + PAGE_BYTES - 64)
        file.write(b"\xff" * 64)

    with pytest.raises(DatabaseUnavailable):
        check_copy(copy)
