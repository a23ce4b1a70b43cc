"""Makes calls in a child process, which is killed when one lasts too long; the next go on in another.

A call that cannot be ended can be neither repeated nor passed over while it runs: after its process was killed, it can.
"""

import os
import pickle
import select
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from penstock.processing.engine.outcome import Failure, Outcome

_HEAD: Final = struct.Struct("=I")
Made = tuple[Outcome | Failure, float]


def in_children(call: Callable[[int], Made], count: int, timeout: float) -> Iterator[Made]:
    """Yield what *call* returns for each number below *count*, one after the other, none of which lasts longer.

    What a call changes in memory is gone with its process. One that overruns has failed with the tag `timeout`, one
    whose process has died otherwise with `died`.
    """
    at = 0
    while at < count:
        child = _Child(call, at, count)
        try:
            while at < count:
                made = child.next(timeout)
                yield made
                at += 1
                if child.is_over:
                    break
        finally:
            child.end()


class _Child:
    """A process that makes calls from one number on, and tells what has come of each."""

    def __init__(self, call: Callable[[int], Made], first: int, count: int) -> None:
        self._end, told = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._end)
            _make(call, first, count, told)
        os.close(told)
        self.is_over = False
        """Whether it makes no more calls: it was killed, or has died."""

    def next(self, timeout: float) -> Made:
        """Return what has come of the next call."""
        began = time.monotonic()
        told = self._told(began + timeout)
        if told is not None:
            made: Made = pickle.loads(told)  # noqa: S301 - Our own child's.
            return made
        took = time.monotonic() - began
        self.is_over = True
        if took >= timeout:
            return Failure("timeout", f"the handler was not done after {timeout:g} s; its process was killed"), took
        return Failure("died", f"the handler's process has ended: {self._status()}"), took

    def end(self) -> None:
        """Kill it, if it is still there."""
        os.close(self._end)
        if self._pid:
            self._kill()

    def _told(self, deadline: float) -> bytes | None:
        head = self._read(_HEAD.size, deadline)
        return None if head is None else self._read(_HEAD.unpack(head)[0], deadline)

    def _read(self, size: int, deadline: float) -> bytes | None:
        found = b""
        while len(found) < size:
            ready, _, _ = select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._end, size - len(found)) if ready else b""
            if not part:
                return None
            found += part
        return found

    def _status(self) -> str:
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._pid = 0


def _make(call: Callable[[int], Made], first: int, count: int, told: int) -> Any:
    """Make the calls, and end; never returns."""
    status = 1
    try:
        for at in range(first, count):
            made = pickle.dumps(call(at))
            os.write(told, _HEAD.pack(len(made)))
            view = memoryview(made)
            while view:
                view = view[os.write(told, view) :]
        status = 0
    finally:
        os._exit(status)
