"""The consumer's own database, in which processing keeps its state, in the consumer's own transactions.

Plans yield steps and receive the rows of each, so that the same code serves sync and async connections.

Invariants:
    Nothing here commits, rolls back or begins, and no driver is imported.
    A plan writes inside a transaction, or not at all.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple, TypeVar

from penstock.client.log.cursor_statements import (
    ASYNC_CONNECTIONS,
    CONNECTIONS,
    check_table,
    parameter_mark,
    use_plain_rows,
)
from penstock.errors import WrongTransaction
from penstock.outbox.dialects import Dialect, to_numbered, to_pyformat

Clock = Callable[[], int]
"""Returns microseconds since 1970, UTC."""


def system_clock() -> int:
    """Return the time now."""
    return time.time_ns() // 1_000


R = TypeVar("R")
Parameters = Mapping[str, object]
Rows = list[tuple[Any, ...]]
_IDLE: Final = 0
"""libpq's status for a connection without an open transaction."""


class Step(NamedTuple):
    """One statement to run."""

    statement: str
    """The name of its file."""
    parameters: Parameters | Sequence[Parameters]
    """Or several sets of them; the statement is run with each."""
    finds: bool = False
    """True if the statement returns rows, which a psycopg cursor cannot tell beforehand inside a pipeline."""


Plan = Generator[Step, Rows, R]


class _Statements:
    """The statements as one connection wants them."""

    def __init__(self, connection: Any, kinds: Mapping[str, str], table: str) -> None:
        check_table(table)
        mark = parameter_mark(connection, kinds)
        self._dialect: Dialect = "sqlite" if mark == "?" else "postgresql"
        self._is_numbered = mark.startswith("$")
        self._table = table

    def creation(self, name: str) -> str:
        """Return the statement that creates the table; it has no parameters."""
        return statement_of(self._dialect, name, self._table)

    def of(self, step: Step) -> tuple[str, Any]:
        """Return the text of *step*, and its parameters."""
        text, given = statement_of(self._dialect, step.statement, self._table), step.parameters
        if self._dialect == "sqlite":
            return text, given
        if not self._is_numbered:
            return to_pyformat(text), given
        text, names = to_numbered(text)
        if isinstance(given, Mapping):
            return text, [given[name] for name in names]
        return text, [[each[name] for name in names] for each in given]


class Database:
    """A `sqlite3.Connection` or `psycopg.Connection`, and one table in its database.

    Raises:
        TypeError: the connection is of another kind.
        BadParameter: *table* is no name of a table.
    """

    def __init__(self, connection: Any, table: str) -> None:
        self._connection = connection
        self._statements = _Statements(connection, CONNECTIONS, table)

    def create(self, statement: str) -> None:
        """Run *statement*, which creates the table if it is not there."""
        self._connection.cursor().execute(self._statements.creation(statement))

    def carry_out(self, plan: Plan[R], *, writes: bool = True) -> R:
        """Run the steps of *plan*, and return its result.

        Raises:
            WrongTransaction: it *writes*, and no transaction is open, nor would the driver begin one.
        """
        if writes:
            _check_transaction(self._connection)
        try:
            step = next(plan)
            while True:
                step = plan.send(self._run(step))
        except StopIteration as done:
            result: R = done.value
            return result

    def _run(self, step: Step) -> Rows:
        text, parameters = self._statements.of(step)
        cursor = use_plain_rows(self._connection.cursor())
        (cursor.execute if isinstance(step.parameters, Mapping) else cursor.executemany)(text, parameters)
        return list(map(_decoded, cursor.fetchall())) if step.finds else []


class AsyncDatabase:
    """The same over a `psycopg.AsyncConnection`; see `Database`."""

    def __init__(self, connection: Any, table: str) -> None:
        self._connection = connection
        self._statements = _Statements(connection, ASYNC_CONNECTIONS, table)

    async def create(self, statement: str) -> None:
        """Run *statement*, which creates the table if it is not there."""
        await self._connection.cursor().execute(self._statements.creation(statement))

    async def carry_out(self, plan: Plan[R], *, writes: bool = True) -> R:
        """Run the steps of *plan*, and return its result; see `Database.carry_out`."""
        if writes:
            _check_transaction(self._connection)
        try:
            step = next(plan)
            while True:
                step = plan.send(await self._run(step))
        except StopIteration as done:
            result: R = done.value
            return result

    async def _run(self, step: Step) -> Rows:
        text, parameters = self._statements.of(step)
        cursor = use_plain_rows(self._connection.cursor())
        await (cursor.execute if isinstance(step.parameters, Mapping) else cursor.executemany)(text, parameters)
        return list(map(_decoded, await cursor.fetchall())) if step.finds else []


def _check_transaction(connection: Any) -> None:
    if hasattr(connection, "in_transaction"):  # sqlite3: since Python 3.12 two settings prevent transactions.
        mode = getattr(connection, "autocommit", -1)
        at_once = mode is True or (mode == -1 and connection.isolation_level is None)
        is_open = connection.in_transaction
    else:
        at_once = connection.autocommit
        is_open = int(connection.info.transaction_status) != _IDLE
    if at_once and not is_open:
        raise WrongTransaction.of("outside-transaction")


def _decoded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *row* with texts as `str`, if the connection's text factory has returned bytes."""
    return tuple([value.decode() if isinstance(value, bytes) else value for value in row])


@cache
def statement_of(dialect: Dialect, name: str, table: str) -> str:
    """Return the text of a statement: from the dialect's own file, or from the file that both dialects share."""
    folder = files(__package__) / "statements"
    own = folder / dialect / f"{name}.sql"
    text = (own if own.is_file() else folder / f"{name}.sql").read_text(encoding="utf-8")
    if dialect == "postgresql":
        text = text.replace(" WITHOUT ROWID", "")
    lines = (line for line in text.splitlines() if not line.startswith("--"))
    return "\n".join(lines).replace("{table}", table)
