"""Loads SQL: statements one to a file, migrations numbered."""

from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Migration(NamedTuple):
    """One step forward of the schema."""

    number: int
    name: str
    sql: str


@cache
def statement(package: str, name: str) -> str:
    """Return the statement *name* of *package*, its comments kept: they show in the database's own logs."""
    return (files(package) / "statements" / f"{name}.sql").read_text()


@cache
def migrations(package: str) -> tuple[Migration, ...]:
    """Return the migrations of *package* in their order: `0001_log.sql`, `0002_…`."""
    found = sorted(file.name for file in (files(package) / "migrations").iterdir() if file.name.endswith(".sql"))
    steps = [Migration(int(name[:4]), name[5:-4], (files(package) / "migrations" / name).read_text()) for name in found]
    assert [step.number for step in steps] == list(range(1, len(steps) + 1)), f"migrations of {package} have a hole"
    return tuple(steps)


def version(package: str) -> int:
    """Return the schema version that this code needs."""
    return migrations(package)[-1].number
