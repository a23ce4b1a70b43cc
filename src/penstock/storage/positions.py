"""Consumer groups' positions, in either database."""

from collections.abc import Mapping, Sequence

from penstock.storage.statements import Statements
from penstock.storage.store import Position


class SqlPositions:
    """See `penstock.storage.store.Positions`."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run
        self._run_each = statements.run_each

    def find(self, group: str, source: str, slice: str) -> Mapping[int, Position]:
        """See `Positions.find`."""
        found = self._run("find_positions", group=group, source=source, slice=slice)
        return {row[0]: Position(*row) for row in found.fetchall()}

    def store(self, group: str, source: str, slice: str, positions: Sequence[Position], *, kind: str, at: int) -> str:
        """See `Positions.store`: in the order of their tranches, or writers of one slice wait in a circle."""
        while not (held := self._run("group_hold", name=group).fetchall()):
            self._run("insert_group", group=group, kind=kind, at=at)
        self._run_each("store_position", [(group, source, slice, *position, at) for position in sorted(positions)])
        return str(held[0][0])
