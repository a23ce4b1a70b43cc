"""Load SQL from files and run it by name.

A statement is one file, `NAME.sql`. Both databases share `storage/sql/NAME.sql`; where they need different text, a
database has a file of its own, `statements/NAME.sql` in its package, which wins. All files write parameters as `:name`,
or as `?` where a statement runs once for each of many rows. Shared files use these words where the databases differ
only in spelling; `penstock.storage.sqlite` and `penstock.storage.postgres` translate them:

- `json_each(:name)`, as a table: the rows are the elements of a JSON array. Their column is `value`, a text
  on Postgres: `CAST(value AS bigint)` makes a number of it.
- `as_json(text)`, before `->` or `->>`: the JSON value that a text is.
- `json_group_array(column)`: the values of a column as a JSON array.
- `FOR UPDATE`, `FOR KEY SHARE` and `SKIP LOCKED` lock rows on Postgres. On SQLite a write transaction locks the file.
- `COLLATE "C"` compares the bytes of texts, as SQLite does anyway.
- `greatest(a, b)` is the larger of two values.
- `clock_micros()` is the time: microseconds since 1970.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from importlib.resources import files
from typing import Any, Final, NamedTuple, Protocol

from penstock.errors import DatabaseUnsuitable

SHARED: Final = "penstock.storage.sql"

_LITERALS: Final = re.compile(r"(--[^\n]*|'(?:[^']|'')*')")


class MigrationStep(NamedTuple):
    """One step forward of the schema."""

    number: int
    name: str
    sql: str


class _Statements(dict[str, Any]):
    """The statements of one dialect by name; each is read from its file when it is first used.

    They are typed `Any` since psycopg takes only literal strings.
    """

    def __init__(self, read: Callable[[str], str]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, name: str) -> Any:
        sql = self[name] = self._read(name)
        return sql


class Dialect:
    """The SQL of one database: its statements and migrations, as its driver takes them.

    Attributes:
        statements: The statements by name. Comments are kept, so that they show in the database's logs.

    Args:
        package: Holds the database's own `statements` and its `migrations`.
        shared: The package of the statements that the databases share.
        translate: Returns a statement as the database and its driver take it.
    """

    def __init__(self, package: str, *, shared: str = SHARED, translate: Callable[[str], str] = str) -> None:
        self._package = package
        self._shared = shared
        self.statements: Mapping[str, Any] = _Statements(lambda name: translate(self._read(f"{name}.sql")))

    @cached_property
    def migrations(self) -> tuple[MigrationStep, ...]:
        """The migrations in their order: `0001_log.sql`, `0002_…`."""
        folder = files(self._package) / "migrations"
        names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
        steps = [
            MigrationStep(int(name[:4]), name[5:-4], (folder / name).read_text(encoding="utf-8")) for name in names
        ]
        numbers = [step.number for step in steps]
        assert numbers == list(range(1, len(steps) + 1)), f"migrations of {self._package} have a hole"
        return tuple(steps)

    @property
    def version(self) -> int:
        """The schema version that this code needs."""
        return self.migrations[-1].number

    def pending(self, found: int) -> tuple[MigrationStep, ...]:
        """Return the migrations that a database at the schema version *found* lacks.

        Raises:
            DatabaseUnsuitable: a newer Penstock has migrated the database.
        """
        if found > self.version:
            raise DatabaseUnsuitable.of("schema-too-new", found=found, wanted=self.version)
        return self.migrations[found:]

    def _read(self, file_name: str) -> str:
        own = files(self._package) / "statements" / file_name
        return (own if own.is_file() else files(self._shared) / file_name).read_text(encoding="utf-8")


def replace_words(sql: str, words: Mapping[str, str]) -> str:
    r"""Return *sql* with each regular expression in *words* replaced; comments and literals stay as they are.

    >>> replace_words("SELECT 'now()', now() -- by now()", {r"\bnow\(\)": "1"})
    "SELECT 'now()', 1 -- by now()"
    """
    parts = _LITERALS.split(sql)
    for pattern, replacement in words.items():
        parts[::2] = [re.sub(pattern, replacement, part) for part in parts[::2]]
    return "".join(parts)


class SqlResult(Protocol):
    """Result of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement wrote."""

    def fetchall(self) -> list[Any]:
        """Return the rows that the statement selected."""


class SqlCursor(Protocol):
    """Cursor that runs a statement many times."""

    def executemany(self, sql: Any, rows: Any, /) -> object:
        """Run *sql* with each of *rows*."""

    def close(self) -> None:
        """Release the cursor."""


class SqlConnection(Protocol):
    """Connection of a database driver: what psycopg and sqlite3 have in common."""

    def execute(self, sql: Any, parameters: Any, /) -> SqlResult:
        """Run *sql*."""

    def cursor(self) -> SqlCursor:
        """Return a new cursor."""


class SqlRunner:
    """Runs a dialect's statements by name on one connection."""

    def __init__(self, dialect: Dialect, connection: SqlConnection) -> None:
        self._statements = dialect.statements
        self._connection = connection

    def run(self, statement_name: str, /, **parameters: Any) -> SqlResult:
        """Run a statement with parameters by name."""
        return self._connection.execute(self._statements[statement_name], parameters)

    def run_each(self, statement_name: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement with each of *rows*, whose values are in the order of its placeholders."""
        with closing(self._connection.cursor()) as cursor:
            cursor.executemany(self._statements[statement_name], rows)
