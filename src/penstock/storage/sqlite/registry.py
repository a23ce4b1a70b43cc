"""The registry in SQLite."""

from penstock.storage.registry import RegistryRepository


class SqliteRegistry(RegistryRepository):
    """The registry in SQLite, where a file may be marked as a backup."""

    def raise_epochs(self) -> int:
        """Give every feed a new epoch, and remove the mark of a backup."""
        self._run("drop_backup_mark")
        return super().raise_epochs()
