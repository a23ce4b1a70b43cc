"""Creates, finds, lists, changes and deletes subscriptions, and composes the services of their streams.

The identity of a subscription is Nakadi's: owning application, event types and consumer group
(https://nakadi.io/manual.html).
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from penstock.core.access import Sender
from penstock.core.fields import Definition
from penstock.core.registry.definition import PENSTOCK, Limits, is_name
from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import (
    SubscriptionSearch,
    read_unprocessable_policy,
    replace_subscription,
    subscription_identity,
)
from penstock.errors import InvalidSubscription
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, record_change
from penstock.hub.log.publish import OWN_EVENT_TYPES
from penstock.hub.log.read import Reader
from penstock.hub.log.watch import Watch
from penstock.hub.subscriptions.commits import CursorCommitter
from penstock.hub.subscriptions.consumer_stream import StreamServices
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS, create_dead_letters
from penstock.hub.subscriptions.lease import HubLease
from penstock.hub.subscriptions.local_streams import LocalStreams
from penstock.hub.subscriptions.parked_keys import ParkedKeys
from penstock.hub.subscriptions.poison_events import PoisonEvents
from penstock.hub.subscriptions.resets import CursorResets
from penstock.hub.subscriptions.sessions import SessionEnd, Sessions
from penstock.hub.subscriptions.slots import get_subscription, make_slot, put_slots
from penstock.hub.subscriptions.streams import Streams
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import StoredSubscription

_ENCODE: Final = msgspec.json.Encoder(order="sorted").encode


class SubscriptionServices:
    """The subscriptions of one store, and the services for their consumers. Safe to use from many threads.

    Attributes:
        streams: opens, extends and releases streams.
        commits: commits cursors.
        resets: resets cursors.
        sessions: snapshots of sessions and their partitions.
        parked_keys: lists, retries and skips parked keys.
        lease: the lease of this hub process.
        local_streams: the streams that this process sends.
    """

    def __init__(self, store: Store, clock: Clock, reader: Reader, watch: Watch, limits: Limits = PENSTOCK) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        hub_id = uuid.uuid4().hex
        self.sessions = Sessions(store, PoisonEvents(clock, limits), hub_id)
        self.local_streams = LocalStreams()
        self.lease = HubLease(store, self.local_streams, hub_id, sweep=self.sessions.sweep, end=self._end_session)
        self.commits = CursorCommitter(
            store,
            clock,
            self.sessions,
            self.local_streams.has_sent,
            self.local_streams.notify_committed,
            strict=limits.strict,
        )
        self.resets = CursorResets(store, clock, self.local_streams.notify_changed)
        self.parked_keys = ParkedKeys(store, clock, self.local_streams.notify_changed)
        self.streams = Streams(
            StreamServices(
                store, reader, watch, self.lease, self.local_streams, self.sessions, self.parked_keys, self.commits
            )
        )

    def find_same(self, definition: Definition) -> StoredSubscription | None:
        """Return the subscription with the identity of a definition, or None."""
        with self._store.read() as tx:
            return tx.subscriptions.find(identity=_identity(definition))

    def load_sources(self, definition: Definition) -> Sequence[StoredFeed]:
        """Return the feeds that a subscription would read, in the order of the definition.

        The event type of dead letters is created if the subscription needs it.

        Raises:
            InvalidSubscription: a feed does not exist, or the feeds have too many partitions in all.
        """
        others = [name for name in definition["event_types"] if name != DEAD_LETTERS]
        with self._store.read() as tx:
            feeds = self._find_sources(tx, definition | {"event_types": others})
        self._provide_dead_letters(definition)
        if len(others) == len(definition["event_types"]):
            return feeds
        with self._store.read() as tx:
            return self._find_sources(tx, definition)

    def create(
        self,
        definition: Definition,
        starts: Mapping[FeedPartition, int] | None = None,
        *,
        by: Sender | None = None,
        now: int | None = None,
    ) -> tuple[StoredSubscription, bool]:
        """Create a subscription, or find the existing one of the same identity; return whether it was created.

        It belongs to the caller *by*. With *starts*, the offsets wanted first, the subscription begins at once.

        Raises:
            InvalidSubscription: see `load_sources`.
        """
        at = self._clock() if now is None else now
        subscription = StoredSubscription(str(uuid.uuid4()), definition, at, at, 0, None)
        identity = _identity(definition)
        self._provide_dead_letters(definition)
        with self._store.write() as tx:
            for feed in sorted(self._find_sources(tx, definition), key=_lock_order):
                tx.registry.find(feed.name, lock=True)  # None can be deleted from here on.
            feeds = self._find_sources(tx, definition)
            owner = None if by is None else by.owner
            if not tx.subscriptions.insert(subscription, identity, [feed.id for feed in feeds], owner):
                existing = tx.subscriptions.find(identity=identity)
                assert existing is not None
                return existing, False
            if starts is not None:
                epochs = {feed.name: feed.epoch for feed in feeds}
                put_slots(tx, subscription.id, [make_slot(*each, epochs) for each in starts.items()], at)
            record_change(tx, AuditedChange("subscription", subscription.id, None, definition), by, at)
            tx.settings.note_access_change()
        return subscription, True

    def find(self, id: str) -> StoredSubscription:
        """Return a subscription.

        Raises:
            SubscriptionNotFound: there is no such subscription.
        """
        with self._store.read() as tx:
            return get_subscription(tx, id)

    def list_newest(self, search: SubscriptionSearch, *, limit: int, offset: int) -> Sequence[StoredSubscription]:
        """Return up to *limit* subscriptions that match, the newest first, without the first *offset*."""
        with self._store.read() as tx:
            return tx.subscriptions.list(search, limit=limit, offset=offset)

    def list_after(self, search: SubscriptionSearch, *, id: str, limit: int) -> Sequence[StoredSubscription]:
        """Return up to *limit* subscriptions that match and whose ids come after *id*, sorted by id."""
        with self._store.read() as tx:
            return tx.subscriptions.list(search, after=id, limit=limit)

    def replace(
        self, id: str, given: Any, check: Callable[[], None] = lambda: None, *, by: Sender | None = None
    ) -> None:
        """Replace the definition of a subscription; *check* is called before anything is written, and may raise.

        A new policy for events that cannot be processed applies to streams that begin afterwards.

        Raises:
            SubscriptionNotFound: there is no such subscription.
            InvalidSubscription: the definition cannot change so: see `replace_subscription`.
        """
        with self._store.write() as tx:
            subscription = get_subscription(tx, id, lock=True)
            definition = replace_subscription(subscription.definition, given)
            check()
            updated_at = max(self._clock(), subscription.updated_at + 1)
            tx.subscriptions.update(subscription._replace(definition=definition, updated_at=updated_at))
            if definition != subscription.definition:
                record_change(
                    tx, AuditedChange("subscription", id, subscription.definition, definition), by, updated_at
                )
            tx.settings.note_access_change()
        self._provide_dead_letters(definition)

    def find_ages(self, offsets: Mapping[int, int]) -> Mapping[int, int]:
        """Return for each partition how many microseconds ago the hub received the event at an offset, if it has it."""
        with self._store.read() as tx:
            received = tx.log.find_receive_times(offsets)
        now = self._clock()
        return {partition_id: max(0, now - at) for partition_id, at in received.items()}

    def delete(self, id: str, by: Sender | None = None) -> None:
        """Delete a subscription with its positions and parked keys; its streams end.

        Raises:
            SubscriptionNotFound: there is no such subscription.
        """
        with self._store.write() as tx:
            subscription = get_subscription(tx, id, lock=True)
            tx.groups.delete(id)
            record_change(tx, AuditedChange("subscription", id, subscription.definition, None), by, self._clock())
            tx.settings.note_access_change()
        self.local_streams.notify_changed(id)

    def stop(self, timeout: float | None = None) -> bool:
        """Commit all queued cursors and stop the threads; return whether each took no longer than *timeout*."""
        return all([self.commits.stop(timeout), self.lease.stop(timeout)])

    def _end_session(self, id: str, session_id: str) -> None:
        self.sessions.end(id, session_id, SessionEnd({}, 0))
        self.local_streams.notify_changed(id)

    def _provide_dead_letters(self, definition: Definition) -> None:
        """Create the event type of dead letters if a subscription reads it, or may publish to it."""
        policy = read_unprocessable_policy(definition)
        publishes = policy is not None and policy.policy == "DEAD_LETTER_QUEUE"
        if publishes or DEAD_LETTERS in definition["event_types"]:
            create_dead_letters(self._store, self._limits, self._clock())

    def _find_sources(self, tx: Tx, definition: Definition) -> Sequence[StoredFeed]:
        names = definition["event_types"]
        found = {name: tx.registry.find(name) if is_name(name) else None for name in names}
        if missing := [name for name, feed in found.items() if feed is None]:
            detail = f"Failed to create subscription, event type(s) not found: {', '.join(map(repr, missing))}"
            reason = f"names event types that there are not: {', '.join(missing)}"
            raise InvalidSubscription(detail, field="event_types", reason=reason, missing=missing)
        feeds = [feed for feed in found.values() if feed is not None]
        count, most = sum(feed.partition_count for feed in feeds), self._limits.subscription_partitions_max
        if count > most:
            detail = f"total partition count for subscription is {count}, but the maximum partition count is {most}"
            raise InvalidSubscription(detail, field="event_types", reason=f"have more than {most} partitions in all")
        return feeds


def _lock_order(feed: StoredFeed) -> tuple[bool, str, int]:
    """Sort feeds as other transactions lock them: in the order of appends, and the hub's own last, by name."""
    is_own = feed.name in OWN_EVENT_TYPES
    return is_own, feed.name if is_own else "", feed.id


def _identity(definition: Definition) -> str:
    return blake2b(_ENCODE(subscription_identity(definition)), digest_size=16).hexdigest()
