"""Has the outbox moved before a read that would come to the head, without a thread that waits for it."""

import asyncio
from collections.abc import Sequence
from typing import Final

from penstock.errors import OutcomeUnknown
from penstock.hub.hub import SETTLE_SECONDS_MAX, Hub, not_settled

OVERVIEW_SECONDS_MAX: Final = 1.0
"""What shows many event types at once waits no longer: one with a backlog is not to hide the others."""


async def settle(hub: Hub, name: str) -> None:
    """Wait until what services have committed to the outbox of *name* is in the log.

    Raises:
        OutboxBacklog, DatabaseUnavailable: it could not be moved now.
    """
    try:
        await asyncio.wait_for(asyncio.wrap_future(hub.move(name)), SETTLE_SECONDS_MAX)
    except (TimeoutError, OutcomeUnknown) as error:
        raise not_settled(name, error) from error


async def settle_some(hub: Hub, names: Sequence[str]) -> None:
    """Have the outboxes of *names* moved, together, as far as that can be done before an overview has to be shown."""
    moves = [asyncio.wrap_future(hub.move(name)) for name in names]
    if moves:
        done, late = await asyncio.wait(moves, timeout=OVERVIEW_SECONDS_MAX)
        for each in late:
            each.cancel()
        await asyncio.gather(*done, *late, return_exceptions=True)
