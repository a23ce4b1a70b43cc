"""`penstock backup`: copies a SQLite database while hubs use it."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import DATABASE, DatabaseOption, OutputOption

if TYPE_CHECKING:
    from penstock.cli.failures import CommandFailure

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="Where the backup is written. The file must not exist.")
]


def backup(file: FileArgument, database: DatabaseOption = DATABASE, output: OutputOption = "text") -> None:
    """Copy a SQLite database into FILE, while hubs and services read and write it.

    The backup has everything that was committed when the command began, the tables of your services included. It is
    written under another name, checked, synced to disk, and then named FILE; a file that exists is never overwritten.
    For PostgreSQL use pg_basebackup or a tool that archives its log: docs/guides/backup.md.

    To restore it: stop all hubs, put it in the place of the database, and run `penstock restored`.
    """
    import time

    from penstock.cli.database import explain_failures
    from penstock.cli.database_url import file_of
    from penstock.cli.failures import unwind_on_sigterm
    from penstock.cli.output import print_json, say

    if (source := file_of(database)) is None:
        raise _not_for_postgres()
    started = time.monotonic()
    unwind_on_sigterm()
    with explain_failures(database), _new_file(file) as partial:
        _write(source, partial, file)
        size = partial.stat().st_size
    seconds = round(time.monotonic() - started, 3)
    if output == "json":
        print_json({"database": f"sqlite:///{source}", "file": str(file), "bytes": size, "seconds": seconds})
    else:
        say(f"{file} is a backup of sqlite:///{source}: {_mib(size)} in {seconds:.1f} s, checked and on disk.")


def _write(source: Path, partial: Path, file: Path) -> None:
    """Copy *source* into the file *partial* and check it; *file* is what it is called in errors."""
    from penstock.cli.failures import CommandFailure
    from penstock.cli.output import working
    from penstock.errors import DatabaseUnavailable, DiskFull
    from penstock.storage.sqlite.backup import check_copy, copy_database, mark_backup

    _check_tables(source)
    try:
        with _copying() as report:
            copy_database(source, partial, report)
        mark_backup(partial)
        with working("checking the copy"):
            check_copy(partial)
    except DiskFull as error:
        needs = f"It needs {_mib(source.stat().st_size)}: free space, or name a file on another disk."
        raise CommandFailure(f"there is no space for {file}", needs) from error
    except DatabaseUnavailable as error:
        if getattr(error.__cause__, "sqlite_errorname", "SQLITE_CORRUPT").startswith(
            ("SQLITE_CORRUPT", "SQLITE_NOTADB")
        ):
            advice = f"The disk of {file} or the database is damaged: run `sqlite3 {source} 'PRAGMA integrity_check'`."
            raise CommandFailure(f"no backup was made, the copy is damaged: {error.reason}", advice) from error
        raise


def _check_tables(source: Path) -> None:
    """Raise Failure unless *source* is the database of a hub: a wrong name must not look like a backup."""
    from contextlib import closing

    from penstock.cli.failures import CommandFailure
    from penstock.storage.sqlite.connection import connect, translate_errors
    from penstock.storage.sqlite.doctor import read_schema_version

    with translate_errors(), closing(connect(source, writes=False)) as connection:
        if not read_schema_version(connection):
            raise CommandFailure(f"{source.absolute()} has no tables of Penstock", "Correct --database.")


@contextmanager
def _new_file(file: Path) -> Iterator[Path]:
    """Create an empty file beside *file* and lend its path; give it the name *file* once the block has ended well.

    Only the user may read it. It is deleted if the block raises.
    """
    from penstock.cli.failures import CommandFailure

    _check_is_new(file)
    partial = file.with_name(f"{file.name}.{secrets.token_hex(4)}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            yield partial
            _sync(partial)
            _rename(partial, file)
            _sync(file.parent)
        finally:
            for path in partial.parent.glob(f"{partial.name}*"):  # SQLite has files of its own beside it.
                path.unlink(missing_ok=True)
    except OSError as error:
        raise CommandFailure(f"{file.absolute()} cannot be written: {error.strerror}", "Name another file.") from error


def _check_is_new(file: Path) -> None:
    from penstock.cli.failures import CommandFailure

    if file.is_dir():
        raise CommandFailure(f"{file.absolute()} is a directory", "Name a file in it that does not exist.")
    if os.path.lexists(file):
        raise _exists(file)
    if not file.parent.is_dir():
        raise CommandFailure(f"there is no directory {file.absolute().parent}", "Create it, or name another file.")


def _exists(file: Path) -> "CommandFailure":
    from penstock.cli.failures import CommandFailure

    return CommandFailure(f"{file.absolute()} exists; a backup overwrites nothing", "Name a file that does not exist.")


def _rename(partial: Path, file: Path) -> None:
    """Give *partial* the name *file*, unless that exists."""
    try:
        os.link(partial, file)
    except FileExistsError:
        raise _exists(file) from None
    except OSError:  # The file system has no links.
        _check_is_new(file)
        partial.rename(file)


def _sync(path: Path) -> None:
    """Have the system write a file or a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _copying() -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal how many bytes are copied, at what speed, and how long it still takes."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from penstock.cli.output import console

    screen = console(stderr=True)
    columns = (BarColumn(bar_width=30), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(compact=True))
    with Progress(
        TextColumn("{task.description}"), *columns, console=screen, disable=not screen.is_terminal
    ) as display:
        task = display.add_task("copying", total=None)
        yield lambda done, total: display.update(task, completed=done, total=total)


def _not_for_postgres() -> "CommandFailure":
    from penstock.cli.failures import MISUSED, CommandFailure

    return CommandFailure(
        "`penstock backup` is for SQLite; PostgreSQL has backups of its own",
        "Use pg_basebackup with an archive of the write-ahead log, as docs/guides/backup.md shows.\n"
        "After a restore run `penstock restored` with the same --database.",
        status=MISUSED,
    )


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB".replace(",", " ")
