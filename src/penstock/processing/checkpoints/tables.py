"""The tables in which a consumer's own database keeps what processors have to know: made once, and looked at."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.errors import TableUnsuitable
from penstock.processing.database import Plan, Step

TABLE: Final = "penstock_checkpoints"


class Part(NamedTuple):
    """One of the tables."""

    suffix: str
    """What its name ends with, after that of the first."""
    creation: str
    """The statement that creates it."""
    columns: frozenset[str]


def _part(suffix: str, creation: str, columns: str) -> Part:
    return Part(suffix, creation, frozenset(columns.split()))


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


def make(table: str, parts: Sequence[Part]) -> Plan[None]:
    """Create those of *parts* that are not there. Whoever has created them need not have the right to.

    Raises:
        TableUnsuitable: one of that name is there, and lacks columns.
    """
    found: dict[Part, bool] = {}
    for part in parts:
        found[part] = yield from is_there(table, part)
    if not all(found.values()):
        yield Step("tables_await", {"table": table}, finds=True)
        for part in parts:
            yield Step(part.creation, {})


def is_there(table: str, part: Part) -> Plan[bool]:
    """Tell whether *part* is there.

    Raises:
        TableUnsuitable: one of that name is, and lacks columns.
    """
    name = f"{table}{part.suffix}"
    columns = {column for (column,) in (yield Step("checkpoint_columns", {"name": name}, finds=True))}
    if columns and (missing := sorted(part.columns - columns)):
        raise TableUnsuitable(table=name, missing=missing, columns=sorted(columns))
    return bool(columns)
