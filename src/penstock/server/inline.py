"""Small publishes are prepared on the event loop, where a trip to a worker thread would take longer than the work."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from penstock.errors import Conflict, Invalid, TooLarge
from penstock.server.state import State

INLINE_BYTES: Final = 16 << 10
"""Bodies up to this are read on the event loop."""
Result_co = TypeVar("Result_co", covariant=True)


class Submit(Protocol[Result_co]):
    """Hands a body's events to the hub; *looks* says whether that may wait for the database."""

    def __call__(self, *, looks: bool = True) -> Result_co:
        """See `Hub.submit`."""


async def submitted(state: State, submit: Submit[Result_co], *, is_small: bool) -> Result_co:
    """Have *submit* called: on the event loop where it *is_small*, else, or where it is refused there, in a worker."""
    if is_small:
        with suppress(Conflict, Invalid, TooLarge):
            return submit(looks=False)
    again: Callable[[], Result_co] = submit
    return await state.run(again)
