"""`penstock backup` makes a whole file or none, and says what prevents it."""

import shutil
import signal
import sqlite3
import stat
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.hub.hub import Hub
from penstock.storage import open_store
from tests.cli.command import PENSTOCK, Command
from tests.promises.scene import NAME, create

QUESTION = (
    "Was sqlite:///shop.db put back from a backup? 1 feed will get a new epoch: the hub refuses the cursors of all "
    "consumers, and each consumer chooses where it begins again. Go on? [y/N] "
)


@pytest.fixture
def shop(penstock: Command) -> Path:
    """The file of a hub's database, in the command's directory."""
    assert penstock("migrate", "--database", "sqlite:///shop.db").status == 0
    return penstock.directory / "shop.db"


def refused(penstock: Command, *arguments: object, status: int = 1) -> list[str]:
    """Return the lines with which the command refuses to make a backup."""
    before = sorted(penstock.directory.iterdir())
    failed = penstock("backup", *arguments)
    assert failed.status == status
    assert failed.out == ""
    assert sorted(penstock.directory.iterdir()) == before
    return failed.err.splitlines()


def test_backup_tells_what_it_has_made_and_is_readable_by_its_user_alone(penstock: Command, shop: Path) -> None:
    said = penstock("backup", "one.db", "--database", "sqlite:///shop.db")
    told = penstock("backup", "two.db", "--database", "sqlite:///shop.db", "-o", "json").json

    assert said.out.startswith("one.db is a backup of sqlite:///shop.db: ")
    assert said.out.endswith("checked and on disk.\n")
    made = (penstock.directory / "two.db").stat()
    assert told.pop("seconds") >= 0
    assert told == {"database": "sqlite:///shop.db", "file": "two.db", "bytes": made.st_size}
    assert stat.S_IMODE(made.st_mode) == 0o600
    names = {path.name for path in penstock.directory.iterdir()}
    assert names == {"shop.db", "shop.db-queue", "one.db", "two.db"}


def test_backup_shows_its_progress_on_a_terminal(penstock: Command, shop: Path) -> None:
    shown = penstock.run_on_terminal("backup", "copy.db", "--database", "sqlite:///shop.db")

    assert "copying" in shown
    assert "checking the copy" in shown


@pytest.mark.parametrize(
    ("target", "database", "says"),
    [
        *((name, "shop.db", [f"{{at}}/{name} exists; a backup overwrites nothing", "Name a file that does not exist."])
          for name in ("shop.db", "link")),
        ("backups", "shop.db", ["{at}/backups is a directory", "Name a file in it that does not exist."]),
        ("no/copy.db", "shop.db", ["there is no directory {at}/no", "Create it, or name another file."]),
        ("copy.db", "none.db", ["there is no file {at}/none.db", "Correct --database"]),
        ("copy.db", "theirs.db", ["{at}/theirs.db has no tables of Penstock", "Correct --database."]),
        ("copy.db", "notes.txt", ["the database cannot be used now: sqlite:///notes.txt: the file is not", ""]),
    ],
    ids=["itself", "link", "directory", "missing directory", "missing file", "without tables", "no database"],
)  # fmt: skip
def test_backup_into_or_of_an_unusable_file_is_refused_and_changes_nothing(
    penstock: Command, shop: Path, target: str, database: str, says: list[str]
) -> None:
    at = penstock.directory
    (at / "link").symlink_to("nowhere")
    (at / "backups").mkdir()
    (at / "notes.txt").write_text("notes " * 1000, encoding="utf-8")
    with closing(sqlite3.connect(at / "theirs.db")) as connection:
        connection.execute("CREATE TABLE theirs (n INTEGER)")
    before = {path: path.read_bytes() for path in at.iterdir() if path.is_file()}

    cause, advice = refused(penstock, target, "--database", f"sqlite:///{database}")

    assert cause.startswith(f"penstock: {says[0].format(at=at)}")
    assert advice.startswith(f"  {says[1]}")
    assert {path: path.read_bytes() for path in at.iterdir() if path.is_file()} == before


def test_damaged_database_makes_no_backup(penstock: Command, shop: Path) -> None:
    with closing(sqlite3.connect(shop)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'penstock_event'").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    with shop.open("r+b") as file:
        file.seek((root - 1) * page_bytes)
        file.write(b"\xff" * 200)

    checking, *said = refused(penstock, "copy.db", "--database", "sqlite:///shop.db")

    assert checking == "checking the copy."
    assert said[0].startswith("penstock: no backup was made, the copy is damaged: ")
    assert "PRAGMA integrity_check" in said[1]


def test_lack_of_space_leaves_no_file(penstock: Command, shop: Path) -> None:
    command = ["prlimit", "--fsize=65536", *PENSTOCK, "backup", "copy.db", "--database", "sqlite:///shop.db"]
    failed = subprocess.run(
        command, cwd=penstock.directory, env=penstock.environment, check=False, capture_output=True, encoding="utf-8"
    )

    assert failed.returncode == 1
    assert failed.stderr.startswith("penstock: ")
    assert sorted(path.name for path in penstock.directory.iterdir()) == ["shop.db", "shop.db-queue"]


def test_database_on_postgresql_is_told_what_to_do_instead(penstock: Command) -> None:
    said = refused(penstock, "copy.db", "--database", "postgresql://shop@db/shop", status=2)

    assert said[0] == "penstock: `penstock backup` is for SQLite; PostgreSQL has backups of its own"
    assert "pg_basebackup" in said[1]
    assert "docs/guides/backup.md" in said[1]


def test_restored_database_with_the_log_of_the_lost_one_is_refused(penstock: Command, shop: Path) -> None:
    """SQLite alone would apply the log of the lost database to the backup, and so undo the restore."""
    assert penstock("backup", "copy.db", "--database", "sqlite:///shop.db").status == 0
    with closing(sqlite3.connect(shop)) as connection:
        connection.execute("CREATE TABLE later (n INTEGER)")
        connection.commit()
        shutil.copy(penstock.directory / "shop.db-wal", penstock.directory / "kept")  # As after a crash.
    shutil.move(penstock.directory / "copy.db", shop)
    shutil.move(penstock.directory / "kept", penstock.directory / "shop.db-wal")

    for command in ("restored", "migrate", "serve"):
        failed = penstock(command, "--database", "sqlite:///shop.db")
        assert failed.status == 1
        assert f"{shop}-wal is the write-ahead log of the file before it" in failed.err
    assert penstock("doctor", "--database", "sqlite:///shop.db").status == 1
    (penstock.directory / "shop.db-wal").unlink()

    assert penstock("restored", "--yes", "--database", "sqlite:///shop.db").status == 0
    with closing(sqlite3.connect(shop)) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'later'").fetchall() == []


def test_restored_asks_first_and_names_the_database_and_what_it_does(penstock: Command) -> None:
    at = ("--database", "sqlite:///shop.db")
    penstock("migrate", *at)
    with closing(open_store(f"sqlite:///{penstock.directory}/shop.db")) as store:
        create(Hub(store))

        def epoch() -> int:
            with store.read() as tx:
                return tx.registry.get(NAME).epoch

        before = epoch()
        for answer in ("", "n\n"):
            refused = penstock("restored", *at, stdin=answer)
            assert (refused.status, refused.out, epoch()) == (1, "", before)
            assert refused.err.splitlines() == [
                QUESTION,
                "penstock: nobody said yes, nothing was changed",
                "  --yes goes on without asking.",
            ]
        assert penstock("restored", *at, stdin="y\n").status == 0
        assert epoch() > before
        without_asking = penstock("restored", "--yes", *at, "-o", "json")

    assert without_asking.json == {"database": "sqlite:///shop.db", "feeds": 1}
    assert without_asking.err == ""


def test_restored_reminds_of_tokens_that_hold_again(penstock: Command) -> None:
    at = ("--database", "sqlite:///shop.db")
    penstock("migrate", *at)
    before = penstock("restored", "--yes", *at)
    penstock("token", "create", "billing", "--to", "billing.token", *at)
    after = penstock("restored", "--yes", *at)

    assert before.err == ""
    assert "penstock token list" in after.err


def test_doctor_says_that_a_backup_is_not_announced(penstock: Command, shop: Path) -> None:
    penstock("backup", "copy.db", "--database", "sqlite:///shop.db")

    before = penstock("doctor", "--database", "sqlite:///copy.db", "-o", "json").json["checks"]
    penstock("restored", "--yes", "--database", "sqlite:///copy.db")
    after = penstock("doctor", "--database", "sqlite:///copy.db", "-o", "json").json["checks"]

    [finding] = [each for each in before if each["name"] == "backup"]
    assert finding["verdict"] == "wrong"
    assert "penstock restored" in finding["says"]
    assert [each for each in after if each["name"] == "backup"] == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_backup_leaves_no_file(
    penstock: Command, shop: Path, monkeypatch: pytest.MonkeyPatch, number: int, status: int
) -> None:
    def interrupted(source: Path, target: Path, report: Any) -> None:
        target.write_bytes(b"the first half")
        report(1, 2)
        signal.raise_signal(number)

    monkeypatch.setattr("penstock.storage.sqlite.backup.copy_database", interrupted)

    assert penstock("backup", "copy.db", "--database", "sqlite:///shop.db").status == status

    assert sorted(path.name for path in penstock.directory.iterdir()) == ["shop.db", "shop.db-queue"]


def test_backup_of_an_older_version_is_made_and_migrated_when_put_back(penstock: Command, shop: Path) -> None:
    with closing(sqlite3.connect(shop)) as connection:
        connection.execute("DELETE FROM penstock_migration WHERE number = (SELECT max(number) FROM penstock_migration)")
        connection.commit()

    assert penstock("backup", "copy.db", "--database", "sqlite:///shop.db").status == 0

    refused_as_old = penstock("restored", "--database", "sqlite:///copy.db")
    assert "penstock migrate" in refused_as_old.err
