"""Consumer groups as a whole, in either database."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from penstock.core.groups import GroupProgress, PartitionExtent
from penstock.storage.groups import Intervention, Listed, Place, Which
from penstock.storage.statements import Statements

_definition: Final = msgspec.json.Decoder(dict[str, Any]).decode
_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode


class SqlGroups:
    """See `penstock.storage.groups.Groups`."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run
        self._run_each = statements.run_each

    def list(self, which: Which, limit: int) -> Sequence[Listed]:
        """See `Groups.list`."""
        return [_listed(row) for row in self._run("groups_list", name=None, limit=limit, **which._asdict()).fetchall()]

    def find(self, name: str) -> Listed | None:
        """See `Groups.find`."""
        found = self._run("groups_list", name=name, limit=1, **Which()._asdict()).fetchall()
        return _listed(found[0]) if found else None

    def standings(self, names: Sequence[str]) -> Sequence[GroupProgress]:
        """See `Groups.standings`."""
        given = msgspec.json.encode(names).decode()
        return [_standing(row) for row in self._run("group_standings", names=given).fetchall()]

    def lock(self, name: str, *, kind: str | None = None, at: int = 0) -> str | None:
        """See `Groups.lock`."""
        while True:
            if kind is not None:
                self._run("insert_group", group=name, kind=kind, at=at)
            found = self._run("group_lock", name=name).fetchall()
            if found or kind is None:  # Else somebody has forgotten the group between the two.
                return str(found[0][0]) if found else None

    def put(self, name: str, places: Iterable[Place], at: int) -> None:
        """See `Groups.put`: in the order in which positions are stored and locked."""
        self._run_each("store_position", [(name, *each, at) for each in sorted(places)])

    def intervene(self, name: str, interventions: Iterable[Intervention]) -> None:
        """See `Groups.intervene`."""
        self._run_each("group_intervene", [(name, *each[:-1]) for each in interventions])

    def history(self, name: str, *, before: int | None, limit: int) -> Sequence[Intervention]:
        """See `Groups.history`."""
        found = self._run("group_history", name=name, before=before, limit=limit)
        return [Intervention(*row) for row in found.fetchall()]

    def delete(self, name: str) -> None:
        """See `Groups.delete`."""
        self._run("group_lock_positions", name=name)
        self._run("group_delete", name=name)


def _listed(row: Sequence[Any]) -> Listed:
    name, kind, sources, definition = row
    return Listed(name, kind, tuple(sorted(_names(sources))), None if definition is None else _definition(definition))


def _standing(row: Sequence[Any]) -> GroupProgress:
    group, source, part, tranche, epoch, offset, updated_at, *there, received_at = row
    extent = None if None in there else PartitionExtent(*there)
    return GroupProgress(group, source, part, tranche, epoch, offset, updated_at, extent, received_at)
