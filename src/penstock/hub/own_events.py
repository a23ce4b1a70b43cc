"""The hub's own event types: their definitions, the features that switch them on, and publishing to them.

The event types and features are Nakadi's (https://nakadi.io/manual.html).

Lock order: a transaction locks the hub's own event types after everything else, sorted by name. No other code appends
to them, so a transaction that holds one never waits for another lock (docs/decisions/group-commit.md).
"""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.events.event import NewEvent
from penstock.core.fields import Definition
from penstock.core.registry.definition import PENSTOCK, Limits
from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.core.times import format_time
from penstock.errors import DatabaseUnavailable, EventTypeExists
from penstock.hub.log.publish import NewEvents, append_rows, lock_heads, prepare
from penstock.storage.admin import FEATURE, ON, Setting
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

METADATA: Final = "metadata"
Event = dict[str, Any]
"""The members of an event; of its metadata those that only its maker knows."""


class OwnEventType(NamedTuple):
    """An event type whose events the hub publishes itself."""

    name: str
    schema: str
    """JSON Schema."""
    key_field: str | None = None
    """The member that is the key of each event; None: events have no key, and go to any partition."""
    is_private: bool = False
    """True if its lists are empty at first: see `NOBODY`."""
    retention_days: int = 30
    """How long it is created to keep its events."""

    def make(self, limits: Limits, now: int) -> EventType:
        """Return the event type as it is created at *now*."""
        schema = {"type": "json_schema", "schema": self.schema, "created_at": format_time(now)}
        options = {"retention_time": self.retention_days * 86_400_000}
        given = _SHARED | {"name": self.name, "schema": schema, "options": options}
        if self.key_field is not None:
            given |= {"partition_strategy": "hash", "partition_key_fields": [self.key_field]}
        made = EventType.parse(given, msgspec.structs.replace(limits, retention_ms=(None, None)))
        if not self.is_private:
            return made
        return EventType.of(made.definition | {"authorization": NOBODY}, made.partition_count)


AUDIT_LOG: Final = OwnEventType(
    "nakadi.audit.log",
    '{"type":"object","required":["resource_type","resource_id","action","user","user_type","user_hash","address"],'
    '"properties":{"resource_type":{"type":"string"},"resource_id":{"type":"string"},'
    '"action":{"type":"string","enum":["created","updated","deleted"]},'
    '"previous_object":{"type":"object"},"previous_text":{"type":"string"},'
    '"new_object":{"type":"object"},"new_text":{"type":"string"},'
    '"user":{"type":"string"},"user_type":{"type":"string"},"user_hash":{"type":"string"},'
    '"address":{"type":"string"},"reason":{"type":"string"}}}',
    key_field="resource_id",
    is_private=True,
    retention_days=365,
)
EVENT_TYPE_LOG: Final = OwnEventType(
    "nakadi.event.type.log",
    '{"type":"object","required":["event_type","status","category","authz","compatibility_mode"],'
    '"properties":{"event_type":{"type":"string"},"status":{"type":"string"},"category":{"type":"string"},'
    '"authz":{"type":"string"},"compatibility_mode":{"type":"string"}}}',
    is_private=True,
)
SUBSCRIPTION_LOG: Final = OwnEventType(
    "nakadi.subscription.log",
    '{"type":"object","required":["subscription_id","status"],'
    '"properties":{"subscription_id":{"type":"string"},"status":{"type":"string"}}}',
    is_private=True,
)
BATCH_PUBLISHED: Final = OwnEventType(
    "nakadi.batch.published",
    '{"type":"object","required":["event_type","app","app_hashed","token_realm","number_of_events","ms_spent",'
    '"batch_size","batches"],"properties":{"event_type":{"type":"string"},"app":{"type":"string"},'
    '"app_hashed":{"type":"string"},"token_realm":{"type":"string"},"number_of_events":{"type":"integer"},'
    '"ms_spent":{"type":"integer"},"batch_size":{"type":"integer"},"batches":{"type":"integer"}}}',
    is_private=True,
)
DATA_STREAMED: Final = OwnEventType(
    "nakadi.data.streamed",
    '{"type":"object","required":["api","event_type","app","app_hashed","token_realm","number_of_events",'
    '"bytes_streamed","batches_streamed"],"properties":{"api":{"type":"string"},"subscription":{"type":"string"},'
    '"event_type":{"type":"string"},"app":{"type":"string"},"app_hashed":{"type":"string"},'
    '"token_realm":{"type":"string"},"number_of_events":{"type":"integer"},"bytes_streamed":{"type":"integer"},'
    '"batches_streamed":{"type":"integer"}}}',
    is_private=True,
)
ACCESS_LOG: Final = OwnEventType(
    "nakadi.access.log",
    '{"type":"object","required":["method","path","query","user_agent","app","app_hashed","status_code",'
    '"response_time_ms","accept_encoding","content_encoding","request_length","response_length"],'
    '"properties":{"method":{"type":"string"},"path":{"type":"string"},"query":{"type":"string"},'
    '"user_agent":{"type":"string"},"app":{"type":"string"},"app_hashed":{"type":"string"},'
    '"status_code":{"type":"integer"},"response_time_ms":{"type":"integer"},"accept_encoding":{"type":"string"},'
    '"content_encoding":{"type":"string"},"request_length":{"type":"integer"},"response_length":{"type":"integer"}}}',
    is_private=True,
)

AUDIT_FEATURE: Final = "audit_log_collection"
KPI_FEATURE: Final = "kpi_collection"
ACCESS_LOG_FEATURE: Final = "access_log_enabled"
_SWITCHED_ON_BY: Final[Mapping[str, tuple[OwnEventType, ...]]] = {
    AUDIT_FEATURE: (AUDIT_LOG,),
    KPI_FEATURE: (EVENT_TYPE_LOG, SUBSCRIPTION_LOG, BATCH_PUBLISHED, DATA_STREAMED),
    ACCESS_LOG_FEATURE: (ACCESS_LOG,),
}
"""The event types that the hub publishes to while a feature is on."""


def find_features(settings: Sequence[Setting]) -> frozenset[str]:
    """Return the features that are on."""
    return frozenset(each.name for each in settings if each.kind == FEATURE and each.value == ON)


def find_feature(event_type: str) -> str | None:
    """Return the feature that has the hub publish to an event type; None if none does."""
    return next(
        (name for name, found in _SWITCHED_ON_BY.items() if event_type in [each.name for each in found]),
        None,
    )


def create_logs(store: Store, feature: str, now: int) -> None:
    """Create the event types that *feature* switches on, so that consumers can subscribe to them."""
    for each in _SWITCHED_ON_BY.get(feature, ()):
        create_own(store, each, PENSTOCK, now)


def hash_name(value: str) -> str:
    """Return the digest of a caller's name, by which readers of these events can tell callers apart without names."""
    return hashlib.sha256(value.encode()).hexdigest()


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
    tx: Tx,
    feed: StoredFeed,
    events: Sequence[Event],
    now: int,
    *,
    validated: bool = True,
    flow_id: str | None = None,
    keys: Sequence[str | None] | None = None,
) -> None:
    """Publish *events* to a feed that `lock_own` has locked; unless they are *validated*, it has to accept them.

    *keys* are those of the events; None: they have none.

    Their metadata is what they have of it themselves; its other members are made here.

    Raises:
        Invalid, TooLarge: an event is not valid, or too large; nothing was written.
        DatabaseUnavailable: the event type was deleted meanwhile.
    """
    at = format_time(now)
    made = [msgspec.json.encode(_complete(each, at)) for each in events]
    new = [NewEvent.of(data, key=key) for data, key in zip(made, keys or [None] * len(made), strict=True)]
    prepared = prepare(feed, NewEvents(new, flow_id=flow_id, validated=validated, is_own=True), now)
    heads = lock_heads(tx, [prepared])
    if any(each not in heads for each in prepared.partition_ids):
        raise DatabaseUnavailable(reason=f"{feed.name} was dropped meanwhile", retry_after=1)
    append_rows(tx, [prepared], heads, now)


def _complete(event: Event, at: str) -> Event:
    """Return *event* with metadata; *at* is when it occurred unless it says so itself."""
    made = {"eid": str(uuid.uuid4()), "occurred_at": at}
    return {METADATA: made, **event} if METADATA not in event else event | {METADATA: made | event[METADATA]}
