"""Has the outbox moved before a read that would come to the head, without a thread that waits for it."""

import asyncio

from penstock.errors import OutcomeUnknown
from penstock.hub.hub import SETTLE_SECONDS_MAX, Hub, not_settled


async def settle(hub: Hub, name: str) -> None:
    """Wait until what services have committed to the outbox of *name* is in the log.

    Raises:
        OutboxBacklog, DatabaseUnavailable: it could not be moved now.
    """
    try:
        await asyncio.wait_for(asyncio.wrap_future(hub.move(name)), SETTLE_SECONDS_MAX)
    except (TimeoutError, OutcomeUnknown) as error:
        raise not_settled(name, error) from error
