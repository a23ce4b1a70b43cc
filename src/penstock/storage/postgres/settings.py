"""The hub's settings in PostgreSQL."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import psycopg

from penstock.storage.statements import statement
from penstock.storage.store import Setting

_sql: Final[Any] = partial(statement, __package__)


class PostgresSettings:
    """See `penstock.storage.store.Settings`."""

    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._connection = connection

    def all(self) -> Sequence[Setting]:
        """See `Settings.all`."""
        return [Setting(*row) for row in self._connection.execute(_sql("settings_all")).fetchall()]

    def put(self, kind: str, name: str, value: str) -> None:
        """See `Settings.put`."""
        self._connection.execute(_sql("settings_put"), {"kind": kind, "name": name, "value": value})

    def remove(self, kind: str, name: str) -> bool:
        """See `Settings.remove`."""
        return self._connection.execute(_sql("settings_remove"), {"kind": kind, "name": name}).rowcount > 0
