"""A MessageDB, asked by its own index; all SQL that is run stands in `statements`."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.spark.messagedb.columns import expression
from penstock.spark.messagedb.failures import meaning
from penstock.spark.messagedb.places import FIRST, CategoryRange
from penstock.spark.patience import patiently

CONNECT_TIMEOUT: Final = 10
_SETTINGS: Final[dict[str, Any]] = {
    "application_name": "penstock-spark",
    "client_encoding": "UTF8",
    "connect_timeout": CONNECT_TIMEOUT,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""Unless the URL says otherwise. By the last four, a network that swallows all is noticed within half a minute."""

Row = tuple[Any, ...]
Result = TypeVar("Result")


class MessageDatabase:
    """A MessageDB at a URL. It can be sent to executors; a connection, made when it is first needed, stays behind.

    Whatever it is asked, it waits for a database that does not answer, and asks again.

    Raises:
        BadParameter: in that schema there is no MessageDB.
        DatabaseUnavailable: it has not answered for too long.
    """

    def __init__(self, url: str, schema: str, retry_timeout: float) -> None:
        self._url = url
        self._schema = schema
        self._retry_timeout = retry_timeout
        self._connection: psycopg.Connection[Row] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_connection": None}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one; the next question makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def heads(self, categories: Sequence[str]) -> dict[str, int]:
        """Return where each category ends: the first global position that none of its events has that can be seen."""
        found = self._ask("heads", categories=list(categories))
        return {category: FIRST if head is None else head for category, head in found}

    def count(self, stretch: CategoryRange, most: int | None = None) -> int:
        """Return how many events *stretch* has; *most* where it has more."""
        [(count,)] = self._ask("count", **stretch._asdict(), most=most)
        return int(count)

    def behind(self, stretch: CategoryRange, events: int) -> int:
        """Return the global position behind the first *events* of *stretch*; its end where it has no more."""
        found = self._ask("behind", **stretch._asdict(), events=events)
        return int(found[0][0]) if found else stretch.end

    def page(self, stretch: CategoryRange, columns: Sequence[str], rows: int) -> list[Row]:
        """Return the first *rows* events of *stretch*: each one's global position, and then its *columns*."""
        return self._ask("page", columns, **stretch._asdict(), rows=rows)

    def _ask(self, statement: str, columns: Sequence[str] = (), **given: Any) -> list[Row]:
        query = query_of(statement, self._schema, columns)
        return self._patiently(lambda connection: connection.execute(query, given).fetchall())

    def _patiently(self, attempt: Callable[[psycopg.Connection[Row]], Result]) -> Result:
        def connected() -> Result:
            try:
                if self._connection is None:
                    conninfo = make_conninfo(**_SETTINGS | conninfo_to_dict(self._url))
                    # Nothing is prepared, so that it works through PgBouncer, too.
                    self._connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
                return attempt(self._connection)
            except psycopg.Error as error:
                self.close()
                raise meaning(error, self._schema) from error

        return patiently(self._retry_timeout, connected)


def query_of(statement: str, schema: str, columns: Sequence[str] = ()) -> sql.Composed:
    """Return a statement as PostgreSQL takes it; a column that is not in the table is null."""
    found = sql.SQL(", ").join(sql.SQL(expression(name) or "NULL") for name in columns)
    return sql.SQL(_text(statement)).format(schema=sql.Identifier(schema), columns=found)


@cache
def _text(name: str) -> str:
    return (files(__package__) / "statements" / f"{name}.sql").read_text(encoding="utf-8")
