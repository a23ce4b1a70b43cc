"""The services of the cold tier: sealing, tables, and measurements of its files."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from penstock.hub.cold.files import SealedFiles, find_sealed
from penstock.hub.cold.sealing import Sealer
from penstock.hub.cold.tables import TableKeeper
from penstock.storage.store import Store


class ColdTierServices:
    """The services of a hub's cold tier. All methods may be called on a hub without one.

    Attributes:
        sealer: seals events.
        tables: keeps the tables.
    """

    def __init__(self, store: Store, sealer: Sealer, tables: TableKeeper) -> None:
        self._store = store
        self.sealer = sealer
        self.tables = tables

    @property
    def waits_max(self) -> int:
        """The maximum number of threads that wait for the cold tier at a time; 0 without a cold tier."""
        return 0 if self._store.cold is None else self._store.cold.waiting_max

    @property
    def failures(self) -> int | None:
        """The number of reads that failed; None without a cold tier."""
        return None if self._store.cold is None else self._store.cold.failures

    @property
    def table_failures(self) -> int | None:
        """The number of updates of tables that failed; None without tables."""
        tables = None if self._store.cold is None else self._store.cold.tables
        return None if tables is None else tables.failures

    def surround_waits(self, waiting: Callable[[], AbstractContextManager[object]]) -> None:
        """Have each thread wait for the storage of the cold tier within what *waiting* returns."""
        if self._store.cold is not None:
            self._store.cold.while_waiting = waiting

    def find_sealed(self, partition_id: int, offset: int, limit: int) -> SealedFiles:
        """Find the files that have a partition's events from an offset on: see `find_sealed` of `files`."""
        return find_sealed(self._store, partition_id, offset, limit)
