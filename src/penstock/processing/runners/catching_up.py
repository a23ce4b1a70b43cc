"""Waits until a processor has nothing behind what is handled and committed."""

import threading
import time
from collections.abc import Callable
from itertools import chain, repeat
from typing import Final

from penstock.errors import PenstockError, Unavailable
from penstock.processing.progress import Progress
from penstock.wire.retry import is_passing

PAUSES_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02)
PAUSE_S: Final = 0.05


class CatchingUp:
    """Those who wait for a processor.

    Args:
        progress: The processor's.
        thread: In which its loop runs.
        wake: Has the loop go on: what is done is to be committed at once while somebody waits.
        error: Returns what has ended the loop.
    """

    def __init__(
        self,
        progress: Progress,
        thread: threading.Thread,
        wake: Callable[[], None],
        error: Callable[[], BaseException | None],
    ) -> None:
        self._progress = progress
        self._thread = thread
        self._wake = wake
        self._error = error
        self.count = 0
        """How many wait."""

    def wait(self, timeout: float) -> None:
        """Wait until nothing is behind.

        Raises:
            Unavailable: that has not come for *timeout* seconds; says what is behind.
            BaseException: what has ended the processor.
        """
        deadline = time.monotonic() + timeout
        self.count += 1
        try:
            for pause in chain(PAUSES_S, repeat(PAUSE_S)):
                self._wake()
                if not self._thread.is_alive():
                    raise self._error() or Unavailable(reason="the processor has ended")
                behind = self._behind()
                if behind is None:
                    return
                if time.monotonic() > deadline:
                    reason = f"the processor has not caught up within {timeout:g} s: behind is {behind}"
                    raise Unavailable(reason=reason)
                time.sleep(pause)
        finally:
            self.count -= 1

    def _behind(self) -> str | None:
        """Return what is behind, for people; None: nothing is."""
        try:
            left = {tranche: count for tranche, count in self._progress.behind().items() if count != 0}
        except PenstockError as error:
            if not is_passing(error):
                raise
            return error.detail
        if not left and self._progress.has_begun:
            return None
        return ", ".join(f"{tranche}: {count}" for tranche, count in sorted(left.items()))
