"""The hub's own threads: each is started once, and ends when what it runs does."""

import threading
from collections.abc import Callable


class Background:
    """A thread that runs *run* once it is started; a process that ends does not wait for it."""

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._guard = threading.Lock()

    @property
    def started(self) -> bool:
        """Whether it has been, be it over or not."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start it; harmless when repeated, from several threads too."""
        with self._guard:
            if not self.started:
                self._thread.start()

    def ended(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; tell whether that came within *timeout_s*. One that was never started has ended."""
        if not self.started:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()
