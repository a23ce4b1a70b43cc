"""Event types and their partitions in PostgreSQL."""

from penstock.core.registry.event_type import StoredFeed
from penstock.storage.feeds import SqlFeeds


class PostgresFeeds(SqlFeeds):
    """Many write at the same time: what is to be changed is locked first, in the order that appends keep to."""

    def lock(self, name: str) -> StoredFeed | None:
        """See `Feeds.lock`."""
        return self.find(name) if self._locked(name) else None

    def delete(self, name: str) -> bool:
        """See `Feeds.delete`."""
        if not self._locked(name):  # One of that name that was created while this waited is another: it stays.
            return False
        self._run("lock_positions", source=name)
        return super().delete(name)

    def raise_epochs(self) -> int:
        """See `Feeds.raise_epochs`."""
        self._run("lock_subscriptions")
        self._run("lock_event_types")
        return super().raise_epochs()

    def _locked(self, name: str) -> bool:
        return bool(self._run("lock_event_type", name=name).fetchall())
