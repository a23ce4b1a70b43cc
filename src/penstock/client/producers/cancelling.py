"""Turns and cancellation of a producer's calls in threads; `async_cancelling` has them for tasks. Written by hand."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TypeAlias

from penstock.client.cancel import LOOK_S, Cancel, FifoLock
from penstock.client.producers.lane import AbandonedError, Lane, Operation
from penstock.client.producers.lanes import Lanes
from penstock.client.producers.options import PublishResult

Guard: TypeAlias = FifoLock


def pause(cancel: Cancel | None) -> Callable[[float], object]:
    """Return how a call waits that *cancel* can end."""
    return cancel.wait if cancel else time.sleep


@contextmanager
def turn(guard: Guard, lanes: Lanes[Guard], lane: Lane, operation: Operation) -> Iterator[None]:
    """Wait for a turn, for as long as the operation may last, and have it within the block."""
    if not guard.acquire(lambda: operation.is_cancelled() or time.monotonic() > operation.deadline):
        raise lanes.gave_up_waiting(lane, operation)
    try:
        if operation.is_cancelled():
            raise lanes.gave_up_waiting(lane, operation)
        yield
    finally:
        guard.release()


def is_free(guard: Guard, operation: Operation) -> bool:
    """Wait until nobody has *guard*, for as long as the operation may last; return whether that is so."""
    if not guard.acquire(lambda: time.monotonic() > operation.deadline):
        return False
    guard.release()
    return True


def publish(
    work: Callable[[], object],
    entered: AbstractContextManager[None],
    cancel: Cancel | None,
    *,
    lanes: Lanes[Guard],
    lane: Lane,
    operation: Operation,
) -> PublishResult:
    """Have *work* done in the turn *entered*, or as much of it as *cancel* lets be; return what has come of it.

    The turn ends with the call: the next call on the partition does not wait for a thread that was left to itself.

    Raises:
        PublishCancelled: it was cancelled, and nothing has come of it.
    """
    with entered:
        if cancel is None:
            work()
        else:
            _work_apart(work, operation, cancel, lanes.cancel_grace)
        if operation.result is None:
            raise lanes.cancelled(lane, operation)
        return operation.result


def _work_apart(work: Callable[[], object], operation: Operation, cancel: Cancel, grace: float) -> None:
    """Have *work* done in a thread of its own, which is left to itself where the call is cancelled meanwhile."""
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is told to whoever waits
            done.set_exception(error)

    threading.Thread(target=run, name="penstock-publish", daemon=True).start()
    try:
        while not wait([done], LOOK_S).done and not cancel.is_set():
            pass
        if not done.done() and operation.in_flight:
            wait([done], grace)
    finally:  # Ctrl-C too ends it: the next call finds out what became of this one.
        operation.abandon()
    if operation.result is None and done.done():
        with suppress(AbandonedError):
            done.result()
