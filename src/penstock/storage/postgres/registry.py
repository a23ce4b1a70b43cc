"""The registry in PostgreSQL."""

from penstock.core.registry.event_type import StoredFeed
from penstock.storage.registry import RegistryRepository


class PostgresRegistry(RegistryRepository):
    """The registry in PostgreSQL, where many transactions write: rows are locked before a change, in one order."""

    def find(self, name: str, *, lock: bool = False) -> StoredFeed | None:
        """Return the feed of that name, or None, and lock it on request."""
        return super().find(name) if not lock or self._lock(name) else None

    def delete(self, name: str) -> bool:
        """Drop an event type."""
        if not self._lock(name):  # An event type of that name that was created while this waited is another one.
            return False
        self._run("lock_positions", source=name)
        return super().delete(name)

    def raise_epochs(self) -> int:
        """Give every feed a new epoch."""
        self._run("lock_subscriptions")
        self._run("lock_epochs")
        return super().raise_epochs()

    def _lock(self, name: str) -> bool:
        return bool(self._run("lock_event_type", name=name).fetchall())
