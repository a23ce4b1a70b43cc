"""Chooses a processor's checkpoints: given ones, or those of its handler or its source."""

from typing import NamedTuple

from penstock.errors import BadParameter
from penstock.processing.checkpoints.checkpoint import Checkpoints, MemoryCheckpoints, check_checkpoints
from penstock.processing.checkpoints.hub import SubscriptionCheckpoints
from penstock.processing.handlers import Transactional
from penstock.processing.sources.subscription import subscription_in


class Keeping(NamedTuple):
    """The checkpoints of a processor, and its use of them."""

    checkpoints: Checkpoints
    keeps_ahead: bool = False
    """True if they also store the streams that are ahead of their positions."""


def keeping(handler: object, checkpoints: Checkpoints | None, source: object) -> Keeping:
    """Return the checkpoints of a processor: *checkpoints*, those of its handler or source, or new ones in memory.

    Raises:
        BadParameter: *checkpoints* differ from those of its handler or its source, or are no checkpoints.
    """
    if checkpoints is not None:
        check_checkpoints(checkpoints)
    if not isinstance(handler, Transactional):
        return Keeping(_suitable(checkpoints, source))
    if checkpoints not in (None, handler.checkpoints):
        allowed = "those that Transactional has; it need not be given again"
        raise BadParameter(parameter="checkpoints", value=checkpoints, allowed=allowed)
    return Keeping(_suitable(handler.checkpoints, source), keeps_ahead=not handler.is_idempotent)


def _suitable(checkpoints: Checkpoints | None, source: object) -> Checkpoints:
    """Return *checkpoints*; None: the default for the source.

    Raises:
        BadParameter: the source is a subscription, and these checkpoints would not commit to the hub.
    """
    subscription = subscription_in(source)
    if subscription is None:
        return checkpoints or MemoryCheckpoints()
    if checkpoints is None:
        return SubscriptionCheckpoints(subscription)
    if not isinstance(checkpoints, SubscriptionCheckpoints) or checkpoints.source is not subscription:
        allowed = "SubscriptionCheckpoints of the source, or none: a hub sends on what it hears to be done"
        raise BadParameter(parameter="checkpoints", value=type(checkpoints).__name__, allowed=allowed)
    return checkpoints
