"""Which checkpoints a processor has: those that it is given, or those that its handler or its source wants."""

from typing import NamedTuple

from penstock.errors import BadParameter
from penstock.processing.checkpoints.checkpoint import Checkpoints, check_checkpoints
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.checkpoints.hub import HubCheckpoints, SubscriptionCheckpoints
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.sources.subscription import subscription_in
from penstock.processing.together import Transactional


class Keeping(NamedTuple):
    """Where a processor keeps how far it is."""

    checkpoints: Checkpoints
    keeps_ahead: bool = False
    """Whether it is kept there, too, which streams are ahead of them."""


def keeping(handler: object, checkpoints: Checkpoints | None, source: object) -> Keeping:
    """Return where a processor keeps how far it is, given *checkpoints*; by default in memory.

    Raises:
        BadParameter: its handler or its source has its own, and others are given; or what is given are none.
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
    """Return *checkpoints*, or what there is by default where there are none.

    Raises:
        BadParameter: the source is a subscription, and the hub would not hear of it what is done.
    """
    subscription = subscription_in(source)
    if subscription is None:
        return checkpoints or MemoryCheckpoints()
    if checkpoints is None:
        return SubscriptionCheckpoints(subscription)
    is_of_another = isinstance(checkpoints, SubscriptionCheckpoints) and checkpoints.source is not subscription
    if is_of_another or isinstance(checkpoints, DatabaseCheckpoints | HubCheckpoints | MemoryCheckpoints):
        allowed = "SubscriptionCheckpoints of the source, or none: a hub sends on what it hears to be done"
        raise BadParameter(parameter="checkpoints", value=type(checkpoints).__name__, allowed=allowed)
    return checkpoints
