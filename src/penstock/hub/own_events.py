"""Publishes the hub's own events, in the transaction of what they tell.

Lock order: a transaction locks the hub's own event types after everything else, sorted by name. Nobody else appends to
them, so that no transaction which holds one waits for another lock (docs/decisions/group-commit.md).
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.events.event import NewEvent
from penstock.core.fields import Definition
from penstock.core.registry.definition import PENSTOCK, Limits
from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.errors import DatabaseUnavailable, EventTypeExists
from penstock.hub.background import rfc3339
from penstock.hub.log.publish import NewEvents, append_rows, lock_heads, prepare
from penstock.storage.store import Store, Tx

NOBODY: Final[Definition] = {"admins": [], "readers": [], "writers": []}
"""The `authorization` of an event type that only administrators of the hub, and readers of all data, may read."""
_SHARED: Final[dict[str, Any]] = {
    "owning_application": "penstock",
    "category": "business",
    "enrichment_strategies": ["metadata_enrichment"],
    "partition_strategy": "random",
    "compatibility_mode": "none",
    "audience": "company-internal",
}

Event = Mapping[str, Any]
"""The members of an event besides its metadata."""


class OwnEventType(NamedTuple):
    """An event type whose events the hub publishes itself."""

    name: str
    schema: str
    """JSON Schema."""
    key_field: str | None = None
    """The member that is the key of each event; None: events have no key, and go to any partition."""
    is_private: bool = False
    """Whether nobody is on its lists at first: see `NOBODY`."""

    def make(self, limits: Limits, now: int) -> EventType:
        """Return the event type as it is created at *now*."""
        schema = {"type": "json_schema", "schema": self.schema, "created_at": rfc3339(now)}
        given = _SHARED | {"name": self.name, "schema": schema}
        if self.key_field is not None:
            given |= {"partition_strategy": "hash", "partition_key_fields": [self.key_field]}
        made = EventType.parse(given, limits)
        if not self.is_private:
            return made
        return EventType.of(made.definition | {"authorization": NOBODY}, made.partition_count)


def create_own(store: Store, which: OwnEventType, limits: Limits, now: int) -> None:
    """Create one of the hub's own event types unless it exists, so that consumers can subscribe to it."""
    with store.read() as tx:
        if tx.registry.find(which.name) is not None:
            return
    try:
        with store.write() as tx:
            tx.registry.insert(which.make(limits, now), now)
            tx.settings.note_access_change()
    except EventTypeExists:
        return  # Another hub has just created it.


def lock_own(tx: Tx, which: OwnEventType, now: int, limits: Limits = PENSTOCK) -> tuple[StoredFeed, bool]:
    """Return the feed of an own event type, locked with all its heads; create it if need be, and return whether."""
    feed = tx.registry.find(which.name, lock=True)
    is_new = feed is None
    if feed is None:
        tx.registry.insert(which.make(limits, now), now)
        feed = tx.registry.find(which.name, lock=True)
        assert feed is not None
    return feed, is_new


def append_own(
    tx: Tx, feed: StoredFeed, events: Sequence[Event], now: int, *, validated: bool = True, flow_id: str | None = None
) -> None:
    """Publish *events* to a feed that `lock_own` has locked; unless they are *validated*, it has to accept them.

    Raises:
        Invalid, TooLarge: an event is not valid, or too large; nothing was written.
        DatabaseUnavailable: the event type was deleted meanwhile.
    """
    at = rfc3339(now)
    new = [
        NewEvent.of(msgspec.json.encode({"metadata": {"eid": str(uuid.uuid4()), "occurred_at": at}, **each}))
        for each in events
    ]
    prepared = prepare(feed, NewEvents(new, flow_id=flow_id, validated=validated, is_own=True), now)
    heads = lock_heads(tx, [prepared])
    if any(each not in heads for each in prepared.partition_ids):
        raise DatabaseUnavailable(reason=f"{feed.name} was dropped meanwhile", retry_after=1)
    append_rows(tx, [prepared], heads, now)
