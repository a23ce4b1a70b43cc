"""Loads SQL: statements one to a file, migrations numbered; runs statements by name."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

from penstock.errors import SchemaTooNew


class Answer(Protocol):
    """What has come of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows were written."""

    def fetchall(self) -> list[Any]:
        """Return the rows that were found."""


class Cursor(Protocol):
    """What runs a statement many times."""

    def executemany(self, sql: Any, rows: Any, /) -> object:
        """Run *sql* with each of *rows*."""

    def close(self) -> None:
        """Let go of what it holds."""


class Connection(Protocol):
    """What the drivers' connections have in common."""

    def execute(self, sql: Any, given: Any, /) -> Answer:
        """Run *sql*."""

    def cursor(self) -> Cursor:
        """Return a new cursor."""


class Statements:
    """The statements of one database, run by name on one connection.

    What is said of both databases in the same words is written once on these; each has its own dialect in its files.
    """

    def __init__(self, package: str, connection: Connection) -> None:
        self._package = package
        self._connection = connection

    def run(self, statement_name: str, /, **given: Any) -> Answer:
        """Run a statement with what it is *given* by name."""
        return self._connection.execute(statement(self._package, statement_name), given)

    def run_each(self, statement_name: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement with each of *rows*, given by place."""
        with closing(self._connection.cursor()) as cursor:
            cursor.executemany(statement(self._package, statement_name), rows)


class Migration(NamedTuple):
    """One step forward of the schema."""

    number: int
    name: str
    sql: str


@cache
def statement(package: str, name: str) -> str:
    """Return the statement *name* of *package*, its comments kept: they show in the database's own logs."""
    return (files(package) / "statements" / f"{name}.sql").read_text(encoding="utf-8")


@cache
def migrations(package: str) -> tuple[Migration, ...]:
    """Return the migrations of *package* in their order: `0001_log.sql`, `0002_…`."""
    found = sorted(file.name for file in (files(package) / "migrations").iterdir() if file.name.endswith(".sql"))
    steps = [
        Migration(int(name[:4]), name[5:-4], (files(package) / "migrations" / name).read_text(encoding="utf-8"))
        for name in found
    ]
    assert [step.number for step in steps] == list(range(1, len(steps) + 1)), f"migrations of {package} have a hole"
    return tuple(steps)


def version(package: str) -> int:
    """Return the schema version that this code needs."""
    return migrations(package)[-1].number


def missing(package: str, found: int) -> tuple[Migration, ...]:
    """Return the migrations of *package* that a database at the schema version *found* lacks.

    Raises:
        SchemaTooNew: a newer Penstock has been there.
    """
    if found > version(package):
        raise SchemaTooNew(found=found, wanted=version(package))
    return migrations(package)[found:]
