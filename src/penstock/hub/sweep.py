"""The one that deletes: removes what belongs to nobody any more, in small transactions that let others go between."""

import threading
from typing import Final

import structlog

from penstock.hub.background import Background
from penstock.storage.store import Store

SWEEP_ROWS: Final = 5_000
RETRY_S: Final = 5.0
_log: Final = structlog.get_logger("penstock.sweep")


class Sweeper:
    """Removes the events of dropped event types."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted = threading.Event()
        self._wanted.set()  # A hub that was killed may have left something.
        self._stopping = False
        self._thread = Background("penstock-sweeper", self._run)

    def start(self) -> None:
        """Start sweeping, once."""
        self._thread.start()

    def sweep(self) -> None:
        """Look for something to remove, soon."""
        self._wanted.set()

    def stop(self, timeout_s: float | None = None) -> bool:
        """End after the transaction at hand; tell whether that was within *timeout_s*."""
        self._stopping = True
        self._wanted.set()
        return self._thread.ended(timeout_s)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            while not self._stopping and self._remove_some():
                pass
            if self._stopping:
                return

    def _remove_some(self) -> bool:
        try:
            with self._store.write() as tx:
                return tx.feeds.purge(SWEEP_ROWS) > 0
        except Exception as error:  # noqa: BLE001 - whatever it is: were this thread to end, nothing would be removed
            _log.warning("sweep failed, trying again", error=str(error))
            again = threading.Timer(RETRY_S, self._wanted.set)
            again.daemon = True  # It shall not hold up a process that ends meanwhile.
            again.start()
            return False
