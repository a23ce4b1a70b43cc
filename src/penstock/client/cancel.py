"""By which a call or a consumer is told to stop."""

from typing import Protocol


class Cancel(Protocol):
    """By which a call is told to stop, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Say whether to stop."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until that is so, or for so many seconds."""


class AsyncCancel(Protocol):
    """By which a task is told to stop, such as an `asyncio.Event`."""

    async def wait(self) -> object:
        """Wait until that is so."""
