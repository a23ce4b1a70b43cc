"""Opens the database that a command works on, and says in one sentence why that fails."""

import getpass
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.cli.database_url import SQLITE, file_of, hide_password
from penstock.cli.failures import CommandFailure
from penstock.core.access import Caller, Sender
from penstock.errors import DatabaseUnavailable, DatabaseUnsuitable, PenstockError
from penstock.storage import Store, open_store

DENIED: Final = "Name a role in --database that may do this, or grant it the right."
_DRIVERS: Final = ("sqlite3", "psycopg", "psycopg_pool")


def find_operator() -> Sender:
    """Return who runs a command, for the audit log: the user of the system, whatever the environment says."""
    try:
        import pwd

        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # A container's user may have no name.
        name = str(os.getuid())
    except ImportError:  # Not POSIX.
        name = getpass.getuser()
    return Sender(Caller("user", name), "")


@contextmanager
def open_database(url: str, *, create: bool = False, cold: str | None = None) -> Iterator[Store]:
    """Open the store at *url*, with its cold tier at *cold*, for the duration of the block.

    A missing SQLite file is created only with *create*, and only in an existing directory.

    Raises:
        CommandFailure: it is missing, cannot be reached or opened, or has tables of another version. The error has the
            driver's reason, and a remedy.
    """
    with explain_failures(url, create=create):
        store = open_store(url, cold)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def explain_failures(url: str, *, create: bool = False, denied: str = DENIED) -> Iterator[None]:
    """Say in one sentence, as `open_database` does, why the block cannot open or use the database at *url*.

    *denied* is what to do if the role may not do it.
    """
    if (file := file_of(url)) is not None:
        _check_file(file, create=create)
    with _attempts() as attempts:
        try:
            yield
        except ModuleNotFoundError as error:
            raise CommandFailure(str(error)) from error
        except DatabaseUnavailable as error:
            cause = error.__cause__ or error
            reason = error.reason or error.detail
            if type(cause).__name__ == "PoolTimeout":  # It says only that it gave up.
                reason = attempts.reason or reason
            detail = DatabaseUnavailable(reason=f"{hide_password(url)}: {_one_line(reason)}").detail
            raise CommandFailure(detail, _advice(cause, denied)) from error
        except DatabaseUnsuitable as error:
            migrate = "Run `penstock migrate` with the same --database."
            raise CommandFailure(error.detail, migrate if error.code == "schema-missing" else error.hint) from error
        except PenstockError:
            raise
        except Exception as error:
            if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in _DRIVERS:
                raise
            raise CommandFailure(
                f"{hide_password(url)} cannot be used: {_one_line(str(error))}", _advice(error, denied)
            ) from error


def is_new(url: str) -> bool:
    """Tell whether *url* names a SQLite file that is not there yet."""
    file = file_of(url)
    return file is not None and _is_missing(file)


def _check_file(file: Path, *, create: bool) -> None:
    place = file.absolute()
    if file.is_dir():
        raise CommandFailure(f"{place} is a directory", "Correct --database: it names a file, sqlite:///FILE.")
    if not _is_missing(file):
        _check_log(place)
        return
    if _is_missing(file.parent):
        raise CommandFailure(f"there is no directory {place.parent}", "Create it, or correct --database.")
    if not create:
        hint = f"Correct --database, or create the file: `penstock migrate --database {SQLITE}{file}`."
        raise CommandFailure(f"there is no file {place}", hint)


def _check_log(place: Path) -> None:
    from penstock.storage.sqlite.backup import has_log_of_another_file

    if has_log_of_another_file(place):
        hint = f"Remove {place}-wal and {place}-shm: SQLite would apply them to the backup and undo the restore."
        raise CommandFailure(f"{place} is a backup, and {place}-wal is the write-ahead log of the file before it", hint)


def _is_missing(file: Path) -> bool:
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        raise CommandFailure(f"{file.absolute()} cannot be used: {error.strerror}", "Check --database.") from error
    return False


def _advice(cause: BaseException, denied: str) -> str:
    """Return what to do about *cause*: the driver's own error."""
    name = getattr(cause, "sqlite_errorname", None) or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "Something else holds the file in a transaction: try again when that has ended."
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR")):
        return "Check that you may write to the file and to its directory, and that its disk is well."
    if name == "SQLITE_NOTADB":
        return "Correct --database; if the file was a database, put a backup back."
    if type(cause).__name__ == "InsufficientPrivilege":
        return denied
    return "Check --database, and that the database runs."


class _Attempts(logging.Handler):
    """Keeps what the connection pool says of its last attempt; its exception says only that it gave up."""

    reason: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        _, _, reason = record.getMessage().partition(": ")
        self.reason = reason or self.reason


@contextmanager
def _attempts() -> Iterator[_Attempts]:
    log, handler = logging.getLogger("psycopg.pool"), _Attempts()
    log.addHandler(handler)
    propagated, log.propagate = log.propagate, False
    try:
        yield handler
    finally:
        log.removeHandler(handler)
        log.propagate = propagated


def _one_line(text: str) -> str:
    return " ".join(text.split())
