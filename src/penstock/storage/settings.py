"""The hub's settings, in either database."""

from collections.abc import Sequence

from penstock.storage.statements import Statements
from penstock.storage.store import Setting


class SqlSettings:
    """See `penstock.storage.store.Settings`."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run

    def all(self) -> Sequence[Setting]:
        """See `Settings.all`."""
        return [Setting(*row) for row in self._run("settings_all").fetchall()]

    def put(self, kind: str, name: str, value: str) -> None:
        """See `Settings.put`."""
        self._run("settings_put", kind=kind, name=name, value=value)

    def remove(self, kind: str, name: str) -> bool:
        """See `Settings.remove`."""
        return self._run("settings_remove", kind=kind, name=name).rowcount > 0
