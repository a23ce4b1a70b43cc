"""By which a call or a consumer is told to stop."""

import asyncio
from inspect import iscoroutinefunction
from typing import Protocol

from penstock.errors import BadParameter


class Cancel(Protocol):
    """By which a call is told to stop, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Say whether to stop."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until that is so, or for so many seconds."""


class AsyncCancel(Protocol):
    """By which a call or a task is told to stop, such as an `asyncio.Event` or an `anyio.Event`."""

    def is_set(self) -> bool:
        """Say whether to stop."""

    async def wait(self) -> object:
        """Wait until that is so."""


def check_cancel(given: object) -> None:
    """Raise BadParameter unless *given* is a `Cancel`, or None: an async one could not be asked."""
    wait = getattr(given, "wait", None)
    if given is not None and (not callable(wait) or iscoroutinefunction(wait)):
        raise BadParameter(parameter="cancel", value=type(given).__name__, allowed="a threading.Event")


def check_async_cancel(given: object) -> None:
    """Raise BadParameter unless *given* is an `AsyncCancel`, or None."""
    if given is not None and not iscoroutinefunction(getattr(given, "wait", None)):
        allowed = "an asyncio.Event, or anyio's: whatever else is waited for would hold up the event loop"
        raise BadParameter(parameter="cancel", value=type(given).__name__, allowed=allowed)


def is_cancelled() -> bool:
    """Tell whether somebody wants the task to end that asks: else a CancelledError is of what it has waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
