"""Learns of a shutdown in time to end waits.

A server stops by waiting for its open requests and only then tells the application, so waits would hold it up. The
signal itself comes earlier: its handler is wrapped, and called after ours.
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_actions: list[Callable[[], object]] = []


def before_shutdown(action: Callable[[], object]) -> Callable[[], None]:
    """Have *action* called when the process is told to stop; return what takes that back.

    Without effect where nobody handles signals in the main thread.
    """
    _actions.append(action)
    _wrap_handlers()
    return lambda: _actions.remove(action)


def _wrap_handlers() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if callable(handler) and not getattr(handler, "wraps_penstock", False):
            signal.signal(number, _wrapping(handler))


def _wrapping(handler: Callable[[int, FrameType | None], Any]) -> Callable[[int, FrameType | None], Any]:
    def handle(number: int, frame: FrameType | None) -> Any:
        for action in tuple(_actions):
            # In a thread of its own: a signal may interrupt the very code that holds the lock which draining takes.
            threading.Thread(target=action, name="penstock-drain", daemon=True).start()
        return handler(number, frame)

    handle.wraps_penstock = True  # type: ignore[attr-defined]
    return handle
