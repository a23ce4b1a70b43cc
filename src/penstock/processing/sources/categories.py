"""The categories of a MessageDB, a store of events in PostgreSQL, as processors and Spark read them.

MessageDB's terms correspond to ours: its *message* is an event, a message's *type* an event's kind. Its *category*
is the part of a stream's name before the first `-`. Each event has a *position*, its index in its stream, and a
*global position*, its number in the whole store.

A reader at a global position of a category has missed none of the category's events below it. The reason:
`write_message` takes an advisory lock of the category (`acquire_lock`, `pg_advisory_xact_lock`) before it draws a
global position from the sequence. The lock is held until its transaction has ended, when the event is visible or never
will be. So within a category events become visible in the order of their positions, and a position that was rolled back
stays a hole. Across categories there is no such order: an open transaction may have a lower position in another
category than the visible ones. Hence each category has its own position. Events that are inserted into the table
without `write_message` have no such guarantee.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.core.database_url import plain_url
from penstock.errors import BadParameter, DatabaseUnavailable, RequirementMissing
from penstock.processing.database import POSTGRES, is_passing

FIRST: Final = 1
"""The first global position of a MessageDB."""
SCHEMA: Final = "message_store"
"""The schema in which MessageDB is installed by default."""
CATEGORY_ALLOWED: Final = "what stands before the first - of a stream's name, such as account"
_INSTALL: Final = "install it: pip install 'penstock-hub[postgres]'"
_NOT_INSTALLED: Final = frozenset(["42P01", "42883", "42703", "3F000"])
"""SQLSTATEs: no such table, function, column or schema."""
_SETTINGS: Final[Mapping[str, Any]] = {
    "client_encoding": "UTF8",
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""Settings that the URL can override. The last four detect a dead network within half a minute."""
PAGE_ROWS: Final = 500
"""The rows of the first page, which shows how large events are."""
PAGE_ROWS_MAX: Final = 10_000
PAGE_BYTES: Final = 4 << 20
Row: TypeAlias = tuple[Any, ...]


class CategoryRange(NamedTuple):
    """The events of a category from the global position *start*, up to but without *end*."""

    category: str
    start: int
    end: int


def check_database_url(url: str) -> str:
    """Return the URL of a PostgreSQL database in the form that drivers accept.

    Raises:
        ValueError: it is invalid. The error does not show the URL, since the invalid part may be a password.
        RequirementMissing: psycopg is not installed.
    """
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ModuleNotFoundError as error:
        raise RequirementMissing(needed="psycopg, to read a MessageDB,", found="none", install=_INSTALL) from error
    plain = plain_url(url)
    try:
        conninfo_to_dict(plain)
    except (psycopg.ProgrammingError, UnicodeError):
        raise ValueError("it cannot be read") from None
    if not plain.startswith(POSTGRES):
        raise ValueError("it is of another database")
    return plain


def is_category(name: str) -> bool:
    """Return whether *name* is valid for a category."""
    return bool(name) and "-" not in name and "\0" not in name


class CategoryDatabase:
    """Queries a MessageDB over one connection, which is opened on first use.

    Args:
        url: The database's URL, as `check_database_url` returns it.
        schema: The schema in which MessageDB is installed.
        name: The application name of the connection.
        settings: Further settings of the connection, which the URL can override.

    Raises:
        BadParameter: (all queries) there is no MessageDB in that schema.
        DatabaseUnavailable: (all queries) the database is not available.
    """

    def __init__(self, url: str, schema: str, *, name: str, settings: Mapping[str, Any] | None = None) -> None:
        self._url = url
        self._schema = schema
        self._settings = {**_SETTINGS, "application_name": name, **(settings or {})}
        self._connection: Any = None

    def close(self) -> None:
        """Close the connection, if there is one; the next query opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def list_heads(self, categories: Sequence[str]) -> dict[str, int]:
        """Return the end of each category: the global position after its last visible event."""
        found = self.query("heads", categories=list(categories))
        return {category: FIRST if head is None else head for category, head in found}

    def find_end(self) -> int:
        """Return the end of the whole store: the global position after its last visible event."""
        [(end,)] = self.query("end")
        return int(end)

    def find_since(self, category: str, time: Any) -> int | None:
        """Return the global position of the first event written at *time* in UTC, or later; None: there is none."""
        found = self.query("since", category=category, time=time)
        return int(found[0][0]) if found else None

    def count(self, stretch: CategoryRange, most: int | None = None) -> int:
        """Return the number of events of *stretch*, at most *most*."""
        [(count,)] = self.query("count", **stretch._asdict(), most=most)
        return int(count)

    def find_behind(self, stretch: CategoryRange, events: int) -> int:
        """Return the global position after the first *events* of *stretch*; its end if it has no more."""
        found = self.query("behind", **stretch._asdict(), events=events)
        return int(found[0][0]) if found else stretch.end

    def read_page(self, stretch: CategoryRange, columns: Sequence[str], rows: int) -> list[Row]:
        """Return the first *rows* events of *stretch*: each one's global position, and then *columns*, in SQL."""
        return self.query("page", columns, **stretch._asdict(), rows=rows)

    def query(self, statement: str, expressions: Sequence[str] = (), **given: Any) -> list[Row]:
        """Run a statement, and return its rows."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        query = compose_query(statement, self._schema, expressions)
        try:
            if self._connection is None:
                conninfo = make_conninfo(**self._settings | conninfo_to_dict(self._url))
                # No prepared statements, so that it works through PgBouncer, too.
                self._connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
            found: list[Row] = self._connection.execute(query, given).fetchall()
        except psycopg.Error as error:
            self.close()
            raise translate_error(error, self._schema) from error
        return found


def compose_query(statement: str, schema: str, expressions: Sequence[str] = ()) -> Any:
    """Return a statement in psycopg's form."""
    from psycopg import sql

    columns = sql.SQL(", ").join(map(sql.SQL, expressions))
    return sql.SQL(_load_statement(statement)).format(schema=sql.Identifier(schema), columns=columns)


@cache
def _load_statement(name: str) -> Any:
    return (files(__package__) / "statements" / f"category_{name}.sql").read_text(encoding="utf-8")


def translate_error(error: Exception, schema: str) -> Exception:
    """Return the error to raise for the driver's *error* from a MessageDB in *schema*.

    It is BadParameter if MessageDB is not there, DatabaseUnavailable if a later query may succeed, else *error*.
    """
    reason = " ".join(str(error).split())
    if getattr(error, "sqlstate", None) in _NOT_INSTALLED:
        allowed = f"one in which MessageDB is installed; the database says: {reason}"
        return BadParameter(parameter="schema", value=schema, allowed=allowed)
    return DatabaseUnavailable(reason=reason) if is_passing(error) else error


def choose_rows(rows: int, size: int) -> int:
    """Return the number of rows of the next page, after *rows* had *size* bytes.

    >>> choose_rows(500, 50_000), choose_rows(500, 50_000_000)
    (1000, 41)
    """
    return max(1, min(PAGE_ROWS_MAX, 2 * rows, rows * PAGE_BYTES // max(size, 1)))
