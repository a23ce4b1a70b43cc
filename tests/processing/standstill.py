"""Has a process stand still as one does that is stopped: its threads wait where they look at the time, or connect."""

import threading


class Standstill:
    """A switch that stops a process, and a count of its open transactions."""

    def __init__(self) -> None:
        self.is_on = False
        self._is_coming = False
        self._open = 0
        self._changed = threading.Condition()

    def begin(self, *, between_transactions: bool) -> None:
        """Have all threads stand still; where it is to be *between_transactions*, when none is open any more."""
        with self._changed:
            self._is_coming = True
            assert self._changed.wait_for(lambda: not (between_transactions and self._open), 300.0)
            self.is_on = True

    def end(self) -> None:
        """Let all go on."""
        with self._changed:
            self._is_coming = self.is_on = False
            self._changed.notify_all()

    def pass_by(self) -> None:
        """Wait as long as all stand still."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_on)

    def enter(self) -> None:
        """Begin a transaction: not while all stand still, nor while they are about to."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_coming)
            self._open += 1

    def leave(self) -> None:
        """End it."""
        with self._changed:
            self._open -= 1
            self._changed.notify_all()
