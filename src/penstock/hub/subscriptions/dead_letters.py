"""The event type of dead letters: events that a subscription gave up, with the reason."""

from typing import Any, Final

from penstock.core.registry.definition import Limits
from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.errors import EventTypeExists
from penstock.hub.background import rfc3339
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


def create_dead_letters(store: Store, limits: Limits, now: int) -> None:
    """Create the dead letters unless there are any, so that somebody can subscribe to them before the first comes."""
    with store.read() as tx:
        if tx.registry.find(DEAD_LETTERS) is not None:
            return
    try:
        with store.write() as tx:
            _insert(tx, limits, now)
    except EventTypeExists:
        return  # Another hub has been faster.


def locked_dead_letters(tx: Tx, limits: Limits, now: int) -> StoredFeed:
    """Return the feed of the dead letters, locked with all its heads; created unless there is one."""
    feed = tx.registry.find(DEAD_LETTERS, lock=True)
    if feed is None:
        _insert(tx, limits, now)
        feed = tx.registry.find(DEAD_LETTERS, lock=True)
        assert feed is not None
    return feed


def _insert(tx: Tx, limits: Limits, now: int) -> None:
    definition = _DEFINITION | {"schema": _DEFINITION["schema"] | {"created_at": rfc3339(now)}}
    tx.registry.insert(EventType.parse(definition, limits), now)
