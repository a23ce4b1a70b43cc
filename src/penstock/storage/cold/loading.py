"""Loading: events of files are read into memory before a transaction needs them, since none waits for the storage."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from penstock.errors import ColdFileDamaged, ColdTierUnavailable

Result = TypeVar("Result")


class NotLoadedError(Exception):
    """Events are in a file, and not in memory.

    The caller ends its transaction, loads them, and begins again: see `load_and_repeat`. A transaction that waited for
    the storage would hold its locks, and a connection that others need.
    """

    def __init__(self, path: str, load: Callable[[], object]) -> None:
        """*load* reads them into memory."""
        super().__init__(f"events of {path} are not in memory")
        self.path = path
        self.load = load

    def load_later(self) -> None:
        """Load the events in the background, for the next one who needs them."""

        def load() -> None:
            with suppress(ColdTierUnavailable, ColdFileDamaged):
                self.load()

        threading.Thread(target=load, name="penstock-cold-load", daemon=True).start()


def load_and_repeat(act: Callable[[], Result]) -> Result:
    """Return the result of *act*, which reads events in transactions of its own; load files between them.

    Raises:
        ColdTierUnavailable: the storage does not answer.
        ColdFileDamaged: a file does not have what it should.
    """
    damaged: ColdFileDamaged | None = None
    while True:
        try:
            return act()
        except NotLoadedError as missing:
            if damaged is not None and damaged.path == missing.path:
                raise damaged from None
            try:
                missing.load()
            except ColdFileDamaged as error:
                damaged = error  # Unless the manifest has another one by now.
