"""Ends a round that goes on while its processor has to end."""

import logging
from collections.abc import Callable
from typing import Final

from penstock.errors import ProcessorUnhealthy

ENDS_TIMEOUT: Final = 30.0
"""So long a round may still last: as long as calls in one process may, when that is to end."""
_log: Final = logging.getLogger("penstock.processing")


class Ending:
    """Looks during a round whether the processor is to end. The round has a while to end by itself, and is cancelled.

    Args:
        check: Raises what is to end the processor.
        cancel: Cancels the round. It is called again each time, since there may be nothing to cancel yet.
        clock: Seconds that never go back.
    """

    def __init__(
        self, check: Callable[[float], None], cancel: Callable[[], object], clock: Callable[[], float]
    ) -> None:
        self._check = check
        self._cancel = cancel
        self._clock = clock
        self._found: ProcessorUnhealthy | None = None
        self._until = 0.0
        self.error: ProcessorUnhealthy | None = None
        """What the round was cancelled for."""

    def look(self) -> None:
        """See whether it is to end."""
        now = self._clock()
        if self._found is None:
            self._find(now)
        elif now >= self._until:
            self.error = self._found
            try:
                self._cancel()
            except Exception:  # noqa: BLE001 - It is tried again, and who waits for Spark is told what is wrong with it.
                _log.warning("a round could not be cancelled", exc_info=True)

    def _find(self, now: float) -> None:
        try:
            self._check(now)
        except ProcessorUnhealthy as error:
            self._found, self._until = error, now + ENDS_TIMEOUT
