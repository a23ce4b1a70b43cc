"""The event type of dead letters: events that a subscription gave up, with the reason."""

from typing import Final, NamedTuple

import msgspec

from penstock.core.registry.definition import Limits
from penstock.hub.background import Clock
from penstock.hub.own_events import OwnEventType, append_own, create_own, lock_own
from penstock.storage.store import Store, Tx

DEAD_LETTERS: Final = "nakadi.dead.letter.queue"
_EVENT_TYPE: Final = OwnEventType(
    DEAD_LETTERS,
    '{"type":"object","required":["subscription_id","event_type","partition","offset","event"],'
    '"properties":{"subscription_id":{"type":"string","format":"uuid"},"event_type":{"type":"string"},'
    '"partition":{"type":"string"},"offset":{"type":"string"},"error":{"type":"object","properties":{"message":{"type":"string"}}},'
    '"event":{"type":"object"}}}',
    retention_days=90,
)


class DeadLetter(NamedTuple):
    """An event that a subscription gave up."""

    subscription: str
    event_type: str
    partition: int
    epoch: int
    offset: int
    reason: str
    data: bytes
    key: str | None = None
    """The key of the event, which is that of the dead letter too."""


def create_dead_letters(store: Store, limits: Limits, now: int) -> None:
    """Create the event type of dead letters unless it exists, so that consumers can subscribe before the first one."""
    create_own(store, _EVENT_TYPE, limits, now)


def publish_dead_letter(tx: Tx, letter: DeadLetter, limits: Limits, clock: Clock) -> None:
    """Publish a dead letter in the transaction of the caller.

    Raises:
        Invalid, TooLarge: the event type of dead letters does not accept it; nothing was written.
        DatabaseUnavailable: the event type was deleted meanwhile.
    """
    feed, _ = lock_own(tx, _EVENT_TYPE, clock(), limits)
    event = {
        "subscription_id": letter.subscription,
        "event_type": letter.event_type,
        "partition": str(letter.partition),
        "offset": f"001-{letter.epoch:04x}-{letter.offset:018d}",
        "error": {"message": letter.reason},
        "event": msgspec.Raw(letter.data),
    }
    append_own(tx, feed, [event], clock(), validated=False, keys=[letter.key])
