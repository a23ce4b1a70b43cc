"""The event type of dead letters: events that a subscription gave up, with the reason."""

import uuid
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.events.event import NewEvent
from penstock.core.registry.definition import Limits
from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.errors import DatabaseUnavailable, EventTypeExists
from penstock.hub.background import Clock, rfc3339
from penstock.hub.log.publish import NewEvents, append_rows, lock_heads, prepare
from penstock.storage.store import Store, Tx

DEAD_LETTERS: Final = "nakadi.dead.letter.queue"
_DEFINITION: Final[dict[str, Any]] = {
    "name": DEAD_LETTERS,
    "owning_application": "penstock",
    "category": "business",
    "enrichment_strategies": ["metadata_enrichment"],
    "partition_strategy": "random",
    "compatibility_mode": "none",
    "audience": "company-internal",
    "schema": {
        "type": "json_schema",
        "schema": '{"type":"object","required":["subscription_id","event_type","partition","offset","event"],'
        '"properties":{"subscription_id":{"type":"string","format":"uuid"},"event_type":{"type":"string"},'
        '"partition":{"type":"string"},"offset":{"type":"string"},"error":{"type":"object","properties":{"message":{"type":"string"}}},'
        '"event":{"type":"object"}}}',
    },
}


class DeadLetter(NamedTuple):
    """An event that a subscription gave up."""

    subscription: str
    event_type: str
    partition: int
    epoch: int
    offset: int
    reason: str
    data: bytes


def create_dead_letters(store: Store, limits: Limits, now: int) -> None:
    """Create the event type of dead letters unless it exists, so that consumers can subscribe before the first one."""
    with store.read() as tx:
        if tx.registry.find(DEAD_LETTERS) is not None:
            return
    try:
        with store.write() as tx:
            _insert(tx, limits, now)
            tx.settings.note_access_change()
    except EventTypeExists:
        return  # Another hub has just created it.


def publish_dead_letter(tx: Tx, letter: DeadLetter, limits: Limits, clock: Clock) -> None:
    """Publish a dead letter in the transaction of the caller.

    Raises:
        Invalid, TooLarge: the event type of dead letters does not accept it; nothing was written.
        DatabaseUnavailable: the event type was deleted meanwhile.
    """
    feed = _lock_dead_letters(tx, limits, clock())
    event = {
        "metadata": {"eid": str(uuid.uuid4()), "occurred_at": rfc3339(clock())},
        "subscription_id": letter.subscription,
        "event_type": letter.event_type,
        "partition": str(letter.partition),
        "offset": f"001-{letter.epoch:04x}-{letter.offset:018d}",
        "error": {"message": letter.reason},
        "event": msgspec.Raw(letter.data),
    }
    prepared = prepare(feed, NewEvents([NewEvent.of(msgspec.json.encode(event))]), clock())
    heads = lock_heads(tx, [prepared])
    if any(each not in heads for each in prepared.partition_ids):
        raise DatabaseUnavailable(reason=f"{DEAD_LETTERS} was dropped meanwhile", retry_after=1)
    append_rows(tx, [prepared], heads, clock())


def _lock_dead_letters(tx: Tx, limits: Limits, now: int) -> StoredFeed:
    """Return the feed of dead letters, locked with all its heads: dead letters may go to any partition."""
    feed = tx.registry.find(DEAD_LETTERS, lock=True)
    if feed is None:
        _insert(tx, limits, now)
        feed = tx.registry.find(DEAD_LETTERS, lock=True)
        assert feed is not None
    return feed


def _insert(tx: Tx, limits: Limits, now: int) -> None:
    definition = _DEFINITION | {"schema": _DEFINITION["schema"] | {"created_at": rfc3339(now)}}
    tx.registry.insert(EventType.parse(definition, limits), now)
