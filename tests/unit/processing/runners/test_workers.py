"""WorkerThreads and tasks: others go on in the place of a call that is stuck, until it ends."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.processing.engine.stream import Call
from penstock.processing.handlers import StreamCaller
from penstock.processing.outcomes import done
from penstock.processing.runners.background import CallResult, Mailbox
from penstock.processing.runners.workers import WorkerTasks, WorkerThreads
from penstock.processing.snapshot import Cpu
from penstock.processing.stream_event import StreamEvent

SOON_SECONDS = 300.0


class Handler:
    """Is stuck in stream `stuck` until it is released; of the others it counts how many go on at once."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.most = 0
        self._lock = threading.Lock()
        self._active = 0

    def __call__(self, stream: str, _: Sequence[Any]) -> None:
        if stream == "stuck":
            self.released.wait(SOON_SECONDS)
            return
        with self._counted():
            time.sleep(0.002)

    async def awaited(self, stream: str, _: Sequence[Any]) -> None:
        if stream == "stuck":
            while not self.released.is_set():  # noqa: ASYNC110 - Another thread sets it.
                await asyncio.sleep(0.001)
            return
        with self._counted():
            await asyncio.sleep(0.002)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self._active += 1
            self.most = max(self.most, self._active)
        yield
        with self._lock:
            self._active -= 1


def call(stream: str) -> Call:
    return Call(stream, [StreamEvent(stream, 0, "e", b"{}")], 1, 0.0)


def settle(inbox: Mailbox, count: int) -> None:
    """Wait until so many calls have ended."""
    ended: list[CallResult] = []
    while len(ended) < count:
        inbox.wait(SOON_SECONDS)
        ended += [item for item in inbox.take_all() if isinstance(item, CallResult)]
    assert [item.result for item in ended] == [done()] * count


@pytest.mark.parametrize("is_awaited", [False, True], ids=["threads", "tasks"])
def test_stuck_call_does_not_reduce_concurrency(is_awaited: bool) -> None:
    handler, inbox = Handler(), Mailbox()
    workers: WorkerThreads | WorkerTasks
    if is_awaited:
        workers = WorkerTasks(StreamCaller(handler.awaited), inbox, time.monotonic, Cpu(), timeout=None)
    else:
        workers = WorkerThreads(StreamCaller(handler), inbox, time.monotonic, Cpu())
    workers.start(1)
    try:
        stuck = call("stuck")
        workers.call([stuck])
        while stuck.called in (0.0, float("inf")):
            time.sleep(0.001)
        workers.call([call("behind it")])
        workers.replace([stuck])
        settle(inbox, 1)  # In its place.

        handler.released.set()
        settle(inbox, 1)
        workers.replace([stuck])  # Too late: it has ended.
        workers.call([call(f"S{number}") for number in range(30)])
        settle(inbox, 30)
    finally:
        workers.stop()
    assert handler.most == 1
