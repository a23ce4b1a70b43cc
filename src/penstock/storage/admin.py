"""Port of the settings that operators make."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.storage.statements import SqlRunner


class Setting(NamedTuple):
    """Setting that an operator has made, identified by kind and name."""

    kind: str
    name: str
    value: str


class SettingRepository:
    """Settings that operators have made.

    A transaction that changes several does so in the order of kind and name, so that no two wait for each other.
    """

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run

    def list(self) -> Sequence[Setting]:
        """Return all settings, sorted by kind and name."""
        return sorted(Setting(*row) for row in self._run("settings_all").fetchall())

    def put(self, kind: str, name: str, value: str | None) -> None:
        """Record a setting and replace its value; None deletes it."""
        if value is None:
            self._run("settings_remove", kind=kind, name=name)
        else:
            self._run("settings_put", kind=kind, name=name, value=value)
