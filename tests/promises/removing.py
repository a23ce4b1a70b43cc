"""A hub in a process of its own that stands still while its sweeper removes something, so that it can be killed."""

import threading
import time
from itertools import count
from typing import Any

from penstock.hub import erasure
from penstock.hub.admin import sweeping
from penstock.hub.hub import Hub
from penstock.hub.log import compaction
from penstock.storage import open_store
from tests.unit.hub.forwarding import ForwardingStore

STEP: int = 40
"""The sweeper removes so many events, or looks at so many offsets, in one transaction."""


def sweep_until(url: str, number: int, is_committed: bool, reached: Any) -> None:
    """Run a hub whose sweeper stands still before, or after, its transaction of that number is committed.

    *reached* is an event that is set then.
    """
    compaction.REMOVED_EVENTS = sweeping.DELETE_ROWS = (STEP, STEP)  # type: ignore[misc]
    erasure.STEP_OFFSETS = STEP  # type: ignore[misc]
    store = ForwardingStore(open_store(url))
    numbers = count(1)

    def stand_still() -> None:
        if threading.current_thread().name == "penstock-sweeper" and next(numbers) == number:
            reached.set()
            threading.Event().wait()

    if is_committed:
        store.after_commit = stand_still
    else:
        store.at_commit = stand_still
    Hub(store).start()  # type: ignore[arg-type]
    time.sleep(3_600)
