"""The tables in which a consumer's own database keeps what processors have to know: made once, and looked at."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple, TypeVar

from penstock.errors import DatabaseUnsuitable
from penstock.processing.connecting import Connect, carried_out
from penstock.processing.database import Database, Plan, Step

R = TypeVar("R")

TABLE: Final = "penstock_checkpoints"


class TablePart(NamedTuple):
    """One of the tables."""

    suffix: str
    """What its name ends with, after that of the first."""
    creation: str
    """The statement that creates it."""
    columns: frozenset[str]


def _part(suffix: str, creation: str, columns: str) -> TablePart:
    return TablePart(suffix, creation, frozenset(columns.split()))


POSITIONS: Final = _part("", "checkpoint_create", "processor tranche position updated_at owner")
PARKED: Final = _part(
    "_parked",
    "checkpoint_parked_create",
    "processor digest stream tranche first_index next_index events attempts tag detail since parked_at request",
)
CHECKPOINTS: Final = (
    POSITIONS,
    _part("_ahead", "checkpoint_ahead_create", "processor tranche digest stream next_index"),
    PARKED,
    _part("_history", "checkpoint_history_create", "id processor tranche at came_from went_to reason"),
)
LEASES: Final = (_part("_leases", "lease_create", "processor shared"),)


class OwnTables:
    """Tables that are made when something is first asked of them, and anew by whoever is started again without them.

    Args:
        connect: Opens their database.
        table: The name of the first; those of the others begin with it.
        parts: Which they are.
        what: What they hold, for people.
    """

    def __init__(self, connect: Connect, table: str, parts: Sequence[TablePart], what: str) -> None:
        self._connect = connect
        self._table = table
        self._parts = parts
        self._what = what
        self.are_made = False
        """Whether they have been there."""

    def create(self) -> None:
        """Create those that are not there."""
        self.carry_out(make(self._table, self._parts))

    def carry_out(self, plan: Plan[R]) -> R:
        """Carry out a plan in a transaction of its own, and return what comes of it.

        Raises:
            DatabaseUnsuitable: they were there, and are not any more: who uses them ends by that.
        """

        def work(connection: Any) -> R:
            if not self.are_made:
                self.on(connection).carry_out(make(self._table, self._parts))
            return self.on(connection).carry_out(plan)

        try:
            result = carried_out(self._connect, work, self._what)
        except DatabaseUnsuitable:
            self.are_made = False
            raise
        self.are_made = True
        return result

    def are_there(self) -> bool:
        """Tell whether the first of them is there, in their own database, beside whatever transaction is open."""
        with closing(self._connect()) as connection:
            found: bool = self.on(connection).carry_out(is_there(self._table, self._parts[0]), writes=False)
            return found

    def on(self, connection: Any) -> Database:
        """Return what carries out plans in the transaction that is open on *connection*."""
        return Database(connection, self._table)


def make(table: str, parts: Sequence[TablePart]) -> Plan[None]:
    """Create those of *parts* that are not there. Whoever has created them need not have the right to.

    Raises:
        DatabaseUnsuitable: one of that name is there, and lacks columns.
    """
    found: dict[TablePart, bool] = {}
    for part in parts:
        found[part] = yield from is_there(table, part)
    if not all(found.values()):
        yield Step("tables_await", {"table": table}, finds=True)
        for part in parts:
            yield Step(part.creation, {})


def is_there(table: str, part: TablePart) -> Plan[bool]:
    """Tell whether *part* is there.

    Raises:
        DatabaseUnsuitable: one of that name is, and lacks columns.
    """
    name = f"{table}{part.suffix}"
    columns = {column for (column,) in (yield Step("checkpoint_columns", {"name": name}, finds=True))}
    if columns and (missing := sorted(part.columns - columns)):
        raise DatabaseUnsuitable.of("table-unsuitable", table=name, missing=missing, columns=sorted(columns))
    return bool(columns)
