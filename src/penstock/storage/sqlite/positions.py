"""Consumer groups' positions in SQLite."""

import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from penstock.storage.statements import statement
from penstock.storage.store import Group, Position

_sql: Final = partial(statement, __package__)


class SqlitePositions:
    """See `penstock.storage.store.Positions`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find(self, group: str, source: str, slice: str) -> Mapping[int, Position]:
        """See `Positions.find`."""
        given = {"group": group, "source": source, "slice": slice}
        return {row[0]: Position(*row) for row in self._connection.execute(_sql("find_positions"), given).fetchall()}

    def store(self, group: str, source: str, slice: str, positions: Sequence[Position], *, kind: str, at: int) -> None:
        """See `Positions.store`."""
        self._connection.execute(_sql("insert_group"), {"group": group, "kind": kind, "at": at})
        rows = [(group, source, slice, *position, at) for position in positions]
        self._connection.executemany(_sql("store_position"), rows)

    def groups(self, source: str | None) -> Sequence[Group]:
        """See `Positions.groups`."""
        found: dict[str, Group] = {}
        for name, kind, read in self._connection.execute(_sql("find_groups"), {"source": source}).fetchall():
            group = found.setdefault(name, Group(name, kind, ()))
            if read is not None:
                found[name] = group._replace(sources=(*group.sources, read))
        return list(found.values())
