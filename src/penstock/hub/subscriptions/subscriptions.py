"""Creates, finds, lists, changes and deletes subscriptions, and composes the services of their streams.

The identity of a subscription is Nakadi's: owning application, event types and consumer group
(https://nakadi.io/manual.html).
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final

import msgspec

from penstock.core.fields import Definition
from penstock.core.registry.definition import PENSTOCK, Limits, is_name
from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import (
    SubscriptionSearch,
    replace_subscription,
    subscription_identity,
    unprocessable_policy_of,
)
from penstock.errors import InvalidSubscription
from penstock.hub.background import Clock
from penstock.hub.log.read import Reader
from penstock.hub.log.watch import Watch
from penstock.hub.subscriptions.commits import CursorCommitter
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS, create_dead_letters
from penstock.hub.subscriptions.lease import HubLease
from penstock.hub.subscriptions.local_streams import LocalStreams
from penstock.hub.subscriptions.parking import Parking, Retries
from penstock.hub.subscriptions.sessions import SessionEnd, Sessions
from penstock.hub.subscriptions.slots import existing, new_slot, put_slots
from penstock.hub.subscriptions.stream import StreamServices
from penstock.hub.subscriptions.streams import Streams
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import StoredSubscription

_ENCODE: Final = msgspec.json.Encoder(order="sorted").encode


class Subscriptions:
    """The subscriptions of one store, and the services for their consumers. Safe to use from many threads.

    Attributes:
        streams: opens, extends and releases streams, resets cursors.
        commits: commits cursors.
        sessions: snapshots of who owns which partition.
        parking: lists, retries and skips parked keys.
        lease: the lease of this hub process.
        local_streams: the streams that this process sends.
    """

    def __init__(self, store: Store, clock: Clock, reader: Reader, watch: Watch, limits: Limits = PENSTOCK) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        hub_id = uuid.uuid4().hex
        self.sessions = Sessions(store, Retries(clock, limits), hub_id)
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
        services = StreamServices(store, reader, watch, self.lease, self.local_streams, self.sessions, self.commits)
        self.streams = Streams(clock, services)
        self.parking = Parking(store, clock, self.local_streams.notify_changed)

    def alike(self, definition: Definition) -> StoredSubscription | None:
        """Return the subscription of the same application, event types and consumer group, or None."""
        with self._store.read() as tx:
            return tx.subscriptions.find(identity=_identity(definition))

    def sources(self, definition: Definition) -> Sequence[StoredFeed]:
        """Return the feeds that a subscription would read, in their order.

        The dead letters are created first where it needs them.

        Raises:
            InvalidSubscription: one does not exist, or there are too many partitions in all.
        """
        others = [name for name in definition["event_types"] if name != DEAD_LETTERS]
        with self._store.read() as tx:
            feeds = self._sources(tx, definition | {"event_types": others})
        self._provide_dead_letters(definition)
        if len(others) == len(definition["event_types"]):
            return feeds
        with self._store.read() as tx:
            return self._sources(tx, definition)

    def create(
        self, definition: Definition, starts: Mapping[FeedPartition, int] | None = None, *, now: int | None = None
    ) -> tuple[StoredSubscription, bool]:
        """Create a subscription, or find the one that is there already; tell whether it was created.

        *starts* are the offsets wanted first where it begins at cursors: it has begun then.

        Raises:
            InvalidSubscription: see `sources`.
        """
        at = self._clock() if now is None else now
        subscription = StoredSubscription(str(uuid.uuid4()), definition, at, at, 0, None)
        identity = _identity(definition)
        self._provide_dead_letters(definition)
        with self._store.write() as tx:
            for feed in sorted(self._sources(tx, definition), key=attrgetter("id")):
                tx.registry.find(feed.name, lock=True)  # So that none is dropped from here on; in the order of appends.
            feeds = self._sources(tx, definition)
            if not tx.subscriptions.insert(subscription, identity, [feed.id for feed in feeds]):
                found = tx.subscriptions.find(identity=identity)
                assert found is not None
                return found, False
            if starts is not None:
                epochs = {feed.name: feed.epoch for feed in feeds}
                put_slots(tx, subscription.id, [new_slot(*each, epochs) for each in starts.items()], at)
        return subscription, True

    def find(self, id: str) -> StoredSubscription:
        """Return the subscription of that id.

        Raises:
            SubscriptionNotFound: there is none.
        """
        with self._store.read() as tx:
            return existing(id, tx.subscriptions.find(id))

    def newest(self, search: SubscriptionSearch, *, limit: int, offset: int) -> Sequence[StoredSubscription]:
        """Return up to *limit* of those looked for, the newest first, without the first *offset*."""
        with self._store.read() as tx:
            return tx.subscriptions.list(search, limit=limit, offset=offset)

    def after(self, search: SubscriptionSearch, *, id: str, limit: int) -> Sequence[StoredSubscription]:
        """Return up to *limit* of those looked for whose ids come after *id*, in the order of their ids."""
        with self._store.read() as tx:
            return tx.subscriptions.list(search, after=id, limit=limit)

    def replace(self, id: str, given: Any, check: Callable[[], None] = lambda: None) -> None:
        """Let a subscription be what is *given*; *check* is called before anything is written, and may raise.

        What becomes of events that cannot be processed takes effect for streams that begin afterwards.

        Raises:
            SubscriptionNotFound: there is none.
            MalformedSubscription, InvalidSubscription: it cannot be that: see `replace_subscription`.
        """
        with self._store.write() as tx:
            subscription = existing(id, tx.subscriptions.find(id, lock=True))
            definition = replace_subscription(subscription.definition, given)
            check()
            updated_at = max(self._clock(), subscription.updated_at + 1)
            tx.subscriptions.update(subscription._replace(definition=definition, updated_at=updated_at))
        self._provide_dead_letters(definition)

    def delete(self, id: str) -> None:
        """Drop a subscription with its positions, and with all that was parked.

        Raises:
            SubscriptionNotFound: there is none.
        """
        with self._store.write() as tx:
            existing(id, tx.subscriptions.find(id, lock=True))
            tx.groups.delete(id)
        self.local_streams.notify_changed(id)

    def stop(self, timeout: float | None = None) -> bool:
        """Commit all queued cursors and stop the threads; return whether each took no longer than *timeout*."""
        return all([self.commits.stop(timeout), self.lease.stop(timeout)])

    def _end_session(self, id: str, session_id: str) -> None:
        self.sessions.end(id, session_id, SessionEnd({}, 0))
        self.local_streams.notify_changed(id)

    def _provide_dead_letters(self, definition: Definition) -> None:
        """Create the dead letters where a subscription reads them, or may send events there."""
        retrying = unprocessable_policy_of(definition)
        sends = retrying is not None and retrying.policy == "DEAD_LETTER_QUEUE"
        if sends or DEAD_LETTERS in definition["event_types"]:
            create_dead_letters(self._store, self._limits, self._clock())

    def _sources(self, tx: Tx, definition: Definition) -> Sequence[StoredFeed]:
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


def _identity(definition: Definition) -> str:
    return blake2b(_ENCODE(subscription_identity(definition)), digest_size=16).hexdigest()
