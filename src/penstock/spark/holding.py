"""Holds a micro-batch back until it is worth writing: a stream that writes files would else write many small ones."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Holding:
    """Holds micro-batches back that have fewer than so many events, for up to so many seconds since the last one."""

    events_min: int | None
    """None: none is held back."""
    seconds_max: float
    """Since the last one; of the first, since this was made."""
    clock: Callable[[], float] = time.monotonic
    _last_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._last_at = self.clock()

    def holds(self, events: int) -> bool:
        """Tell whether a micro-batch of so many *events* is to wait; if not, it begins now."""
        now = self.clock()
        if self.events_min is not None and events < self.events_min and now < self._last_at + self.seconds_max:
            return True
        self._last_at = now
        return False
