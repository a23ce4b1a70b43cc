"""Runs a processor step by step, by a clock that a test shares between its components."""

import math
from typing import Any, Final

from penstock.errors import OutcomeUnknown, PenstockError
from penstock.processing.handlers import Handler
from penstock.processing.parameters import check_count, check_seconds
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.sources.source import Source
from penstock.testing.clock import VirtualClock, check_clock
from penstock.wire.http import is_transient

PAUSE_SECONDS: Final = 0.1
"""How much time passes after a failure that can pass."""


class VirtualInline(InlineProcessor):
    """An `InlineProcessor` that runs by a `VirtualClock`: to advance either is to advance both.

    The next step repeats reads and commits that failed with a transient error, as `LocalProcessor` does; it first
    advances time by a tenth of a second.

    Args:
        handler: See `Handler`.
        source: The source to read.
        clock: The clock; None: a new one.
        failures_max: The number of steps in a row that may fail this way.
        options: Further arguments of `InlineProcessor`.

    Raises:
        BadParameter: an argument has the wrong type, or (`advance`) time would go back.
        PenstockError: (`step`, `drain`) a permanent error occurred, or too many transient ones in a row.
    """

    def __init__(
        self,
        handler: Handler,
        source: Source,
        *,
        clock: VirtualClock | None = None,
        failures_max: int = 100,
        **options: Any,
    ) -> None:
        if clock is not None:
            check_clock(clock)
        check_count("failures_max", failures_max, least=0)
        self.clock = VirtualClock() if clock is None else clock
        self.failures: list[PenstockError] = []
        """The transient errors of reads and commits that were retried."""
        self._began = self.clock()
        self._failures_max = failures_max
        self._in_a_row = 0
        super().__init__(handler, source, **options)

    @property
    def now(self) -> float:
        """How many seconds have passed since it was made."""
        return (self.clock() - self._began) / 1_000_000

    @now.setter
    def now(self, seconds: float) -> None:
        """Let time pass until then."""
        # What is due is due then, so never a little less.
        self.clock.advance(microseconds=math.ceil((seconds - self.now) * 1_000_000))

    def advance(self, seconds: float) -> None:
        """Let time pass, which does not go back; where it is to, set its clock back."""
        check_seconds("seconds", seconds, zero=True)
        self.clock.advance(seconds=seconds)

    def step(self) -> bool:
        """Read what there is room for and make one call; tell whether there was anything to do."""
        try:
            was_busy = super().step()
        except PenstockError as error:
            self._in_a_row += 1
            if not (is_transient(error) or isinstance(error, OutcomeUnknown)) or self._in_a_row > self._failures_max:
                raise
            self.failures.append(error)
            self.advance(PAUSE_SECONDS)
            return True
        self._in_a_row = 0
        return was_busy
