"""Loads the SQL of the outbox, one statement a file, and converts its parameters to each driver's style."""

import re
from functools import cache
from importlib.resources import files
from typing import Final, Literal

Dialect = Literal["sqlite", "postgresql"]

_CREATION: Final[dict[Dialect, tuple[str, ...]]] = {
    "sqlite": ("create_table", "create_index"),
    "postgresql": ("create_table",),
}
_PARAMETER: Final = re.compile(r"(?<!:):([a-z_]+)")


@cache
def statement(dialect: Dialect, name: str) -> str:
    """Return the statement *name* for *dialect*, without its leading comment; its parameters have the form `:name`."""
    text = (files(__package__) / "statements" / dialect / f"{name}.sql").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def creation_statements(dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that create the outbox if it is missing, to be run one by one."""
    return tuple(statement(dialect, name) for name in _CREATION[dialect])


def sql(dialect: Dialect) -> str:
    """Return the SQL that creates the outbox if it is missing, for Alembic and other tools that run SQL.

    For PostgreSQL this is a single statement; for SQLite it is two, each ended by a semicolon.

    Raises:
        ValueError: *dialect* is neither "sqlite" nor "postgresql".
    """
    if dialect not in _CREATION:
        raise ValueError(f'there is an outbox for "sqlite" and for "postgresql", not for {dialect!r}')
    return ";\n".join(creation_statements(dialect)) + ";\n"


@cache
def to_pyformat(text: str) -> str:
    """Return *text* with its parameters in the form `%(name)s`.

    >>> to_pyformat("SELECT '50%' WHERE name = :name")
    "SELECT '50%%' WHERE name = %(name)s"
    """
    return _PARAMETER.sub(r"%(\1)s", text.replace("%", "%%"))


@cache
def to_numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """Return *text* with its parameters in the form `$1`, `$2`, and their names in that order.

    >>> to_numbered("SELECT :one, :two, :one")
    ('SELECT $1, $2, $1', ('one', 'two'))
    """
    names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    return _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", text), names
