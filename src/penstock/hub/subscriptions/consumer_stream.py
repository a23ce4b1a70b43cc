"""Sends a subscription's events to one consumer: reads events, decides what to send next, and notes commits.

A `ConsumerStream` has no thread and no connection. Its sender calls `step` when the stream wakes it or when its idle
time is over, one call at a time. Three parts of it stand on their own: `LeaseGuard` decides whether the stream may
still deliver, `PartitionEnds` waits for new events, and `ParkedKeyFilter` leaves out and resends parked events.

Invariants:
    A stream reads only partitions that the database says it owns, and only while the hub's lease is valid. It delivers
    events that it has read only if it owned the partition all the time: the sender asks `is_certain`.
    After the lease has expired, other hubs may have taken partitions. Nothing is certain then until a snapshot, taken
    after any rebalance under way, shows that the session still exists. A session that lost a partition does not.
    The next owner of a partition knows which events were sent and not committed. The stream may commit them until its
    commit timeout is over.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple

from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.delivery import (
    COMMIT_TIMEOUT,
    DeliveryBatch,
    DeliveryRules,
    EventChunk,
    SubscriptionDelivery,
)
from penstock.core.subscriptions.tokens import ParkedSpan
from penstock.errors import (
    Blocked,
    ColdFileDamaged,
    ColdTierUnavailable,
    CursorExpired,
    DatabaseUnavailable,
    HubUnavailable,
    PenstockError,
    SubscriptionNotFound,
)
from penstock.hub.log.read import (
    ChunkRows,
    PageReading,
    Reader,
    Reads,
    read_next_events,
    take_events,
    to_detailed_events,
    to_events,
)
from penstock.hub.log.watch import Waiter, Watch
from penstock.hub.subscriptions.commits import CursorCommit, CursorCommitter
from penstock.hub.subscriptions.lease import HubLease
from penstock.hub.subscriptions.local_streams import LocalStreams
from penstock.hub.subscriptions.parked_keys import ParkedKeys
from penstock.hub.subscriptions.sessions import (
    BLOCKED,
    DELETED,
    LEASE_EXPIRED,
    RELEASED,
    RESETTING,
    STOPPING,
    OpenedSession,
    SessionEnd,
    Sessions,
    SubscriptionSnapshot,
)
from penstock.storage.log.events import PartitionHead
from penstock.storage.store import Store
from penstock.storage.subscriptions import StoredParkedKey, StoredSlot


class StreamServices(NamedTuple):
    """The services that all streams of a process use."""

    store: Store
    reader: Reader
    watch: Watch
    lease: HubLease
    local_streams: LocalStreams
    sessions: Sessions
    parked_keys: ParkedKeys
    commits: CursorCommitter


class LeaseGuard:
    """Lease guard: decides whether a stream may continue, and deliver the events it has read. Safe in any thread."""

    def __init__(
        self,
        services: StreamServices,
        opened: OpenedSession,
        lapses: int,
        *,
        check_access: Callable[[], None],
        on_extended: Callable[[], None],
    ) -> None:
        """Guard the session *opened*.

        *lapses* is how often the lease had expired before the session was opened: a later expiry makes it uncertain.
        *check_access* raises Blocked once the consumer may no longer read. *on_extended* is called when
        `find_interruption` notices that the commit timeout was extended.
        """
        self._services = services
        self._check_access = check_access
        self._on_extended = on_extended
        self._subscription_id = opened.subscription.id
        self._session_id = opened.session.id
        self._lapses = lapses
        self._extensions = opened.session.extensions
        self._places = frozenset(slot.place for slot in opened.slots)
        """All partitions of the subscription."""

    @property
    def is_certain(self) -> bool:
        """True if the stream may deliver its chunks: the lease is valid, and has not lapsed since the last snapshot."""
        return self._services.lease.is_valid and self._services.lease.lapses == self._lapses

    def is_stopping(self) -> bool:
        """Return whether the hub is stopping.

        Raises:
            Blocked: the consumer may no longer read.
        """
        self._check_access()
        return self._services.watch.draining

    def take_snapshot(self) -> tuple[SubscriptionSnapshot, str | None]:
        """Return a snapshot of the subscription, and the reason why the stream ends, or None.

        The stream is certain until the lease expires again.

        Raises:
            SubscriptionNotFound: the subscription was deleted.
            DatabaseUnavailable: no snapshot could be taken.
        """
        snapshot, lapses = self._read_snapshot()
        self._note_extensions(snapshot)
        reason = self._find_end_reason(snapshot, lapses)
        self._lapses = lapses
        return snapshot, reason

    def find_interruption(self, *, is_stale: bool) -> str | None:
        """Return why a stream has to end in the midst of a step, or None.

        *is_stale* says that the subscription has changed since the last snapshot.
        """
        try:
            if self.is_stopping():
                return STOPPING
            if not is_stale and self._services.lease.lapses == self._lapses:
                return None
            snapshot, lapses = self._read_snapshot()
            if self._note_extensions(snapshot):
                self._on_extended()
            reason = self._find_end_reason(snapshot, lapses)
            if reason is None:
                self._lapses = lapses
            return reason
        except Blocked:
            return BLOCKED
        except SubscriptionNotFound:
            return DELETED
        except DatabaseUnavailable:
            return None

    def _read_snapshot(self) -> tuple[SubscriptionSnapshot, int]:
        lapses = self._services.lease.lapses
        has_lapsed = lapses != self._lapses
        return self._services.sessions.snapshot(self._subscription_id, is_locked=has_lapsed), lapses

    def _find_end_reason(self, snapshot: SubscriptionSnapshot, lapses: int) -> str | None:
        reason = snapshot.find_end_reason(self._session_id, self._places)
        return LEASE_EXPIRED if reason == RELEASED and lapses != self._lapses else reason

    def _note_extensions(self, snapshot: SubscriptionSnapshot) -> bool:
        session = snapshot.find_session(self._session_id)
        before = self._extensions
        self._extensions = before if session is None else session.extensions
        return self._extensions != before


class PartitionEnds:
    """The ends of the partitions of one stream, as far as they are known; wakes the stream when they advance."""

    def __init__(self, store: Store, watch: Watch, wake: Callable[[], None]) -> None:
        """Begin without partitions. *wake* is called, from any thread, when a partition has new events."""
        self._store = store
        self._watch = watch
        self._wake_stream = wake
        self._feeds: dict[str, StoredFeed] = {}
        self._partitions: dict[int, FeedPartition] = {}
        self._ends: dict[FeedPartition, int] = {}
        self._waiter = Waiter({}, self._wake)
        self._noted: dict[int, int] = {}

    def load(self, places: Sequence[FeedPartition]) -> dict[FeedPartition, PartitionHead]:
        """Read the heads of all partitions of these event types, and remember the feeds."""
        heads_of = {}
        if places:
            with self._store.read() as tx:
                for name in {name for name, _ in places}:
                    feed = self._feeds[name] = tx.registry.get(name)
                    heads = tx.log.find_heads(feed.partition_ids)
                    for number, partition_id in enumerate(feed.partition_ids):
                        self._partitions[partition_id] = (name, number)
                        heads_of[name, number] = heads[partition_id]
        return heads_of

    def feed(self, event_type: str) -> StoredFeed:
        """Return the feed of an event type that was loaded."""
        return self._feeds[event_type]

    def add(self, place: FeedPartition, end: int) -> None:
        """Add a loaded partition, whose next offset is *end*."""
        self._ends[place] = end

    def remove(self, place: FeedPartition) -> None:
        """Remove a partition; harmless when repeated."""
        self._ends.pop(place, None)

    def end(self, place: FeedPartition) -> int:
        """Return the offset after the last known event; 0 if the stream does not own the partition."""
        return self._ends.get(place, 0)

    def refresh(self) -> None:
        """Advance the ends to those that the watch has reported."""
        if self._waiter.found == self._noted:
            return
        self._noted = dict(self._waiter.found)
        for partition_id, end in self._noted.items():
            place = self._partitions[partition_id]
            self._ends[place] = max(end, self._ends.get(place, 0))

    def wait(self) -> None:
        """Wait for new events of exactly the partitions that were added and not removed."""
        ends = {self._feeds[name].partition_ids[number]: end for (name, number), end in self._ends.items()}
        self.cancel()
        self._waiter = self._watch.wait(ends, self._wake)

    def cancel(self) -> None:
        """Stop waiting; harmless when repeated."""
        self._watch.cancel(self._waiter)

    def _wake(self) -> None:
        waiter = self._waiter
        waiter.offsets.update(dict(waiter.found))  # An end is reported once.
        self._wake_stream()


RESENT_MAX: Final = 100
"""Maximum number of events in a batch of resent events."""


class ParkedKeyFilter:
    """Leaves events of parked keys out of one stream, and resends the parked events that an operator retries."""

    def __init__(self, parked_keys: ParkedKeys, subscription_id: str, session_id: str, batch_limit: int) -> None:
        self._parked_keys = parked_keys
        self._subscription_id = subscription_id
        self._session_id = session_id
        self._limit = min(RESENT_MAX, batch_limit)
        self._keys: dict[FeedPartition, dict[bytes, StoredParkedKey]] = {}
        self._alone: dict[FeedPartition, dict[int, int]] = {}
        """Parked events without a key that the partition's position has not passed: offset to id."""
        self._retried: list[StoredParkedKey] = []
        """Keys whose events are to be resent."""

    def update(
        self,
        parked: Sequence[StoredParkedKey],
        own: Collection[FeedPartition],
        delivery: SubscriptionDelivery,
        now: float,
    ) -> None:
        """Take over the parked keys of a snapshot; resent events may have been committed since."""
        self._keys, self._alone = {}, {}
        known = {each.id: each for each in parked}
        for each in parked:
            if each.place not in own:
                continue
            if each.key is not None:
                self._keys.setdefault(each.place, {})[each.key.encode()] = each
            elif each.first >= delivery.position(each.place):
                self._alone.setdefault(each.place, {})[each.first] = each.id
        for parked_id, span in delivery.resent.items():
            if parked_id not in known or known[parked_id].first > span.last:
                delivery.acknowledge(parked_id, now)
        resent = delivery.resent
        self._retried = [each for each in parked if each.is_retried and each.place in own and each.id not in resent]

    @property
    def has_retries(self) -> bool:
        """True if there are parked events to resend."""
        return bool(self._retried)

    def find_resendable(self, delivery: SubscriptionDelivery) -> StoredParkedKey | None:
        """Return a retried key whose first parked event lies below the position of its partition, or None.

        The next owner of the partition would read events above the position again.
        """
        if not self._retried:
            return None
        return next((each for each in self._retried if each.first < delivery.position(each.place)), None)

    def has_parked_keys(self, place: FeedPartition) -> bool:
        """Return whether a partition has parked keys, so that its events have to be examined one by one."""
        return place in self._keys or place in self._alone

    def read_filtered(
        self, reads: Reads, place: FeedPartition, reading: PageReading, *, timed: bool, has_details: bool
    ) -> tuple[EventChunk | None, bool]:
        """Read the next chunk without the events of parked keys; None at the end of the range.

        The second value says whether a key is parked no longer: see `filter`.

        Raises:
            CursorExpired: retention has removed the events.
            DatabaseUnavailable: the events could not be read, or those of parked keys not recorded.
        """
        track = reading.tracks[0]
        chunk = reads.read_next_columns(reading, track)
        if chunk is None:
            return None, False
        rows = ChunkRows(chunk)
        kept, is_outdated = self.filter(place, rows, rows.match(reading, track))
        kind = reading.feed.name if has_details else None
        return take_events(chunk, rows, track, kept, timed=timed, kind=kind), is_outdated

    def filter(self, place: FeedPartition, rows: ChunkRows, kept: Sequence[bool]) -> tuple[Sequence[bool], bool]:
        """Return which of the events *kept* so far to send, after parking those whose keys are parked.

        The second value says whether a key is parked no longer, so that the stream needs another snapshot.

        Raises:
            DatabaseUnavailable: the events could not be parked.
        """
        parked_keys, alone = self._keys.get(place, {}), self._alone.get(place, {})
        offsets: dict[int, list[int]] = {}
        ids = []
        for offset, key, keep in zip(rows.offsets, rows.keys, kept, strict=True):
            parked_id = None
            if keep:
                parked = parked_keys.get(key) if key is not None else None
                # Earlier events of the key were handled before this one was given up, and may not be committed yet.
                parked_id = parked.id if parked is not None and offset >= parked.first else alone.get(offset)
            ids.append(parked_id)
            if parked_id is not None:
                offsets.setdefault(parked_id, []).append(offset)
        if not offsets:
            return kept, False
        still = self._parked_keys.park(self._subscription_id, self._session_id, offsets)
        return [keep and each not in still for keep, each in zip(kept, ids, strict=True)], len(still) < len(offsets)

    def resend(
        self, delivery: SubscriptionDelivery, clock: Callable[[], float], *, has_details: bool
    ) -> Iterator[DeliveryBatch]:
        """Yield the batches of parked events to resend.

        Raises:
            DatabaseUnavailable: the events could not be read; they are resent later.
        """
        while parked := self.find_resendable(delivery):
            below = delivery.position(parked.place)
            read = self._parked_keys.read_resendable(self._subscription_id, parked, below, self._limit)
            self._retried.remove(parked)
            if read.events and not delivery.is_withdrawn(parked.place):
                if not has_details:
                    read = read._replace(details=None)
                yield delivery.resend(parked.place, ParkedSpan(parked.id, read.offsets[-1]), read, clock())


ROWS_MAX: Final = 4_096
"""Maximum number of events of a partition that a stream reads at once."""
LIGHT_ROWS: Final = 64
"""Reading up to this many events is light work."""
WHOLE_ROWS: Final = 500
"""Each batch of at least this many events is read on its own, so that nothing has to split it."""
ROUNDS: Final = 8
"""A step reads each partition so often at most; it reads on while the sender sends."""
PAUSE_SECONDS: Final = 0.25
"""How often a stream checks whether the hub's lease is valid again."""
PASS_INTERVAL: Final = 5.0
"""How often a stream commits positions past events that it left out."""
_unshared: Final = count()


class ConsumerStream:
    """The stream of a subscription to one consumer."""

    def __init__(
        self,
        services: StreamServices,
        opened: OpenedSession,
        rules: DeliveryRules,
        lapses: int,
        *,
        check_access: Callable[[], None] = lambda: None,
        uses_replicas: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the stream of the session *opened*.

        Args:
            services: the services of this process.
            opened: the session, and its subscription.
            rules: how the consumer wants its events.
            lapses: how often the lease had expired before the session was opened.
            check_access: called at every step; raises Blocked once the consumer may no longer read.
            uses_replicas: says whether replicas of the database may serve the events.
            clock: seconds of a clock that does not go back.
        """
        self._services = services
        self._guard = LeaseGuard(
            services, opened, lapses, check_access=check_access, on_extended=self._extend_commits_until
        )
        self._clock = clock
        self.session_id = opened.session.id
        self.subscription_id = opened.subscription.id
        self.secret = opened.session.secret
        self._delivery = SubscriptionDelivery(rules, clock())
        self._rules = rules
        self._uses_replicas = uses_replicas
        self._ends = PartitionEnds(services.store, services.watch, self._wake_sender)
        self._parked = ParkedKeyFilter(services.parked_keys, self.subscription_id, self.session_id, rules.batch_limit)
        self._extensions = opened.session.extensions
        self._epochs = {slot.place[0]: slot.epoch for slot in opened.slots}
        self._delivery.set_final_position(opened.slots[0].place, opened.slots[0].offset)
        self.commits_until = float("-inf")
        """When the commit timeout is over, counted from the last commit or extension noted in the midst of a step."""
        self._inbox: deque[Mapping[FeedPartition, int]] = deque()
        self._at_hand: list[tuple[FeedPartition, EventChunk]] = []
        """Chunks that other streams have read, for the next light step to send."""
        self._unreadable: dict[FeedPartition | None, ColdTierUnavailable | ColdFileDamaged] = {}
        """Why this step could not read partitions; None as a key: parked events."""
        self._is_stale = True
        self._passed_at = self._heard_at = clock()
        self._wake: Callable[[], None] = lambda: None
        self._ends.wait()
        services.local_streams.add(self, opened.subscription.revision)

    # Notifications, from any thread

    def note_committed(self, offsets: Mapping[FeedPartition, int]) -> None:
        """See `StreamListener.note_committed`."""
        if not offsets.keys().isdisjoint(self._delivery.places):
            self._inbox.append(offsets)
            self._extend_commits_until()
            self._wake()

    def note_changed(self) -> None:
        """See `StreamListener.note_changed`."""
        self._is_stale = True
        self._wake()

    def has_sent(self, place: FeedPartition, position: int) -> bool:
        """See `StreamListener.has_sent`."""
        return self._delivery.has_sent(place, position)

    def on_wake(self, wake: Callable[[], None]) -> None:
        """Call *wake*, from any thread, when there may be something to send."""
        self._wake = wake

    def _wake_sender(self) -> None:
        self._wake()

    def _extend_commits_until(self) -> None:
        self.commits_until = self._clock() + self._rules.commit_timeout

    # State

    @property
    def is_over(self) -> bool:
        """True once the stream has ended."""
        return self._delivery.reason is not None

    @property
    def reason(self) -> str | None:
        """Why the stream has ended; None: it has not."""
        return self._delivery.reason

    @property
    def is_certain(self) -> bool:
        """See `LeaseGuard.is_certain`."""
        return self._guard.is_certain

    def find_interruption(self) -> str | None:
        """See `LeaseGuard.find_interruption`."""
        return self._guard.find_interruption(is_stale=self._is_stale)

    @property
    def idle_seconds(self) -> float:
        """The time until the next step, unless the stream wakes its sender before."""
        if not self._services.lease.is_valid:
            return PAUSE_SECONDS
        due_at = self._delivery.due_at
        if self._delivery.filtered_positions:
            due_at = min(due_at, self._passed_at + self._pass_interval)
        return max(0.0, due_at - self._clock())

    @property
    def _pass_interval(self) -> float:
        """How often to commit past left-out events: sooner while parked events wait for that to be resent."""
        return PAUSE_SECONDS if self._parked.has_retries else PASS_INTERVAL

    @property
    def seconds_left(self) -> float:
        """The time until the stream ends, unless the consumer commits before."""
        return max(0.0, self._delivery.ends_at - self._clock())

    @property
    def has_work(self) -> bool:
        """True if the next step has something to do; False while the lease has expired."""
        if not self._services.lease.is_valid:
            return False
        self._ends.refresh()
        has_news = self._inbox or self._is_stale or self._delivery.released_partitions
        return bool(has_news or self._parked.find_resendable(self._delivery)) or any(
            True for _ in self._list_readable()
        )

    def epoch(self, event_type: str) -> int:
        """Return the epoch of an event type of the subscription."""
        return self._epochs[event_type]

    def read_key(self) -> object | None:
        """Return what the next step has to read, equal for streams that read the same.

        None: a light step is enough.
        """
        unread, self._at_hand = [], []
        if self._is_stale or self._parked.find_resendable(self._delivery) or self._delivery.released_partitions:
            return next(_unshared)
        self._ends.refresh()
        for each in self._list_readable():
            if not self._is_light(*each):
                return next(_unshared)
            if (read := self._find_shared(*each)) is None:
                unread.append(each)
            else:
                self._at_hand.append((each[0], read))
        return tuple(unread) or None

    # Steps

    def step(self, *, light: bool = False) -> Iterator[Sequence[DeliveryBatch]]:
        """Do the work of this moment, and yield the batches to send, piece by piece.

        A *light* step asks the database for nothing: it sends what `read_key` has just found, and leaves the rest to
        the next step.

        Raises:
            DatabaseUnavailable: the database could not be reached.
            ColdTierUnavailable, ColdFileDamaged: events of a file could not be read; all others were sent.
        """
        try:
            if self._guard.is_stopping():
                yield self._delivery.end(STOPPING)
                return
            if not self._services.lease.is_valid:
                self._is_stale = True  # The session may still exist once the lease is valid again.
                self._apply_commits(self._clock())
                yield self._delivery.expire(self._clock())
                return
            if (reason := self._refresh(light=light)) is not None:
                yield self._delivery.end(reason)
                return
            self._unreadable = {}
            for batch in () if light else self._resend():
                yield [batch]
                if self._is_outdated:
                    return
            yield from self._send_batches(light=light)
            if self._clock() - self._passed_at >= self._pass_interval:
                self._pass_over()
            if not light:
                self._hand_over()
            if self._unreadable and not self.is_over:
                raise next(iter(self._unreadable.values()))
        except Blocked:
            yield self._delivery.end(BLOCKED)
        except SubscriptionNotFound:
            yield self._delivery.end(DELETED)

    def _resend(self) -> Iterator[DeliveryBatch]:
        try:
            yield from self._parked.resend(self._delivery, self._clock, has_details=self._rules.has_details)
        except (ColdTierUnavailable, ColdFileDamaged) as error:
            self._unreadable[None] = error

    def _send_batches(self, *, light: bool) -> Iterator[Sequence[DeliveryBatch]]:
        at_hand, self._at_hand = self._at_hand, []
        for place, read in at_hand if light else self._read_all():
            if self._is_outdated:
                return
            self._delivery.add(place, read)
            if not light:  # A large chunk is sent while the rest is read.
                yield self._delivery.take_one(place, self._clock())
        if not self._is_outdated:
            self._apply_commits(self._clock())  # Commits that arrived while the sender sent are in time.
            yield self._delivery.take(self._clock())

    def end(self, reason: str) -> Sequence[DeliveryBatch]:
        """End the stream, and return the batch that gives the reason."""
        return self._delivery.end(reason)

    def close(self) -> None:
        """Record in the database that the stream has ended, and its left-out events. To be called once, at any end.

        Raises:
            DatabaseUnavailable: nothing was recorded; `HubLease.close_later` retries.
        """
        self._services.local_streams.remove(self)
        self._ends.cancel()
        delivery = self._delivery
        can_commit = delivery.reason not in (RESETTING, DELETED)
        hold_seconds = delivery.committing_until - self._clock() if can_commit else 0.0
        if can_commit and delivery.reason != LEASE_EXPIRED and (committing := self._pass_over()):
            with suppress(PenstockError, TimeoutError):  # If this fails, the next owner leaves the same events out.
                committing.result(PASS_INTERVAL)
        # Resent events of a stream that ended for another reason have not failed: the next owner resends them.
        has_failed = delivery.reason in (None, COMMIT_TIMEOUT, RELEASED)
        failed, resent = (list(delivery.resent), ()) if has_failed else ((), delivery.resent_places)
        overdue = delivery.find_overdue(self._clock())
        end = SessionEnd(delivery.uncommitted, int(hold_seconds * 1_000_000), failed, overdue, resent)
        self._services.sessions.end(self.subscription_id, self.session_id, end)
        self._services.local_streams.notify_changed(self.subscription_id)

    # Assignment

    @property
    def _is_outdated(self) -> bool:
        """True if the stream has to take a snapshot before it sends more: sending may have taken long."""
        is_late = self._is_stale and self._clock() - self._heard_at > PAUSE_SECONDS
        return self.is_over or is_late or not self._guard.is_certain

    def _refresh(self, *, light: bool) -> str | None:
        """Apply commits and other changes; return the reason if the stream has to end because of them."""
        now = self._heard_at = self._clock()
        self._apply_commits(now)
        if self._is_stale and not light:
            self._is_stale = False
            try:
                snapshot, reason = self._guard.take_snapshot()
                if reason is not None:
                    return reason
                self._apply(snapshot, now)
            except DatabaseUnavailable:
                self._is_stale = True
                raise
        self._ends.refresh()
        return None

    def _apply_commits(self, now: float) -> None:
        while self._inbox:
            for place, position in self._inbox.popleft().items():
                self._delivery.commit(place, position, now)

    def _apply(self, snapshot: SubscriptionSnapshot, now: float) -> None:
        """Take over the assignment of a snapshot: drop lost partitions, add new ones."""
        session = snapshot.find_session(self.session_id)
        if session is not None and session.extensions != self._extensions:
            self._extensions = session.extensions
            self._delivery.extend(now)
        own = {slot.place: slot for slot in snapshot.slots if slot.owner == self.session_id}
        had = set(self._delivery.places)
        for place in had - own.keys():
            self._delivery.remove(place, now)
            self._ends.remove(place)
        self._add([slot for place, slot in own.items() if place not in had], now)
        for slot in own.values():
            self._update(slot, now)
        self._parked.update(snapshot.parked, own.keys(), self._delivery, now)
        if not own:
            self._delivery.set_final_position(snapshot.slots[0].place, snapshot.slots[0].offset)
        if own.keys() != had:
            self._ends.wait()

    def _add(self, slots: Sequence[StoredSlot], now: float) -> None:
        heads = self._ends.load([slot.place for slot in slots])
        for slot in slots:
            head = heads[slot.place]
            self._delivery.assign(slot.place, slot.offset, now)
            self._ends.add(slot.place, head.next_offset)
            if head.floor > slot.offset:
                self._delivery.skip(slot.place, head.floor)

    def _update(self, slot: StoredSlot, now: float) -> None:
        place, delivery = slot.place, self._delivery
        delivery.commit(place, slot.offset, now)
        if slot.single_until > slot.offset:
            delivery.single_out(place, slot.single_until)
        if slot.successor is None and delivery.is_withdrawn(place):
            delivery.keep(place)
        elif slot.successor is not None and not delivery.is_withdrawn(place):
            delivery.withdraw(place, now)

    def _hand_over(self) -> None:
        """Hand over withdrawn partitions that are committed in full to their successors."""
        released = self._delivery.released_partitions
        if released:
            self._services.sessions.hand_over(self.subscription_id, self.session_id, released)
            for place in released:
                self._delivery.remove(place, self._clock())
                self._ends.remove(place)
            self._ends.wait()
            self._services.local_streams.notify_changed(self.subscription_id)

    def _pass_over(self) -> "Future[Sequence[bool]] | None":
        """Commit positions past left-out events where nothing else is uncommitted; None: there are none."""
        self._passed_at = self._clock()
        if commits := [CursorCommit(place, position) for place, position in self._delivery.filtered_positions.items()]:
            with suppress(HubUnavailable):
                return self._services.commits.submit(self.subscription_id, self.session_id, commits, is_trusted=True)
        return None

    # Reading

    def _read_all(self) -> Iterator[tuple[FeedPartition, EventChunk]]:
        """Read each partition in turn, in several rounds, until nothing more may be sent."""
        rounds = ROUNDS
        while rounds and (readable := [each for each in self._list_readable() if each[0] not in self._unreadable]):
            rounds -= 1
            for each in readable:
                if self._is_outdated:
                    return
                try:
                    read = self._read(*each)
                except (ColdTierUnavailable, ColdFileDamaged) as error:
                    self._unreadable[each[0]] = error
                    continue
                if read is not None:
                    yield each[0], read

    def _list_readable(self) -> Iterator[tuple[FeedPartition, int, int]]:
        """Yield each partition with unread events, and the offsets from and to which to read at once."""
        rules = self._rules
        rows = min(ROWS_MAX, rules.max_uncommitted)
        if WHOLE_ROWS <= rules.batch_limit <= ROWS_MAX:
            rows = min(rows, rules.batch_limit)
        for place, start in self._delivery.wanted_offsets.items():
            end = self._ends.end(place)
            if start < end:
                yield place, start, min(end, start + rows)

    def _is_light(self, place: FeedPartition, start: int, stop: int) -> bool:
        """Return whether reading these events is light work."""
        return stop - start <= LIGHT_ROWS and not self._is_filtered(place)

    def _is_filtered(self, place: FeedPartition) -> bool:
        """Return whether events have to be examined one by one."""
        return bool(self._rules.timespan_seconds) or self._parked.has_parked_keys(place)

    def _find_shared(self, place: FeedPartition, start: int, stop: int) -> EventChunk | None:
        """Return a light chunk that another stream has just read; None: it has to be read."""
        if not self._is_light(place, start, stop):
            return None
        reader, feed = self._services.reader, self._ends.feed(place[0])
        if self._rules.has_details:
            columns = reader.find_shared_columns(feed, place[1], start, stop)
            return to_detailed_events(columns, feed) if columns else None
        chunk = reader.find_shared(feed, place[1], start, stop)
        return to_events(chunk, start, stop) if chunk else None

    def _read(self, place: FeedPartition, start: int, stop: int) -> EventChunk | None:
        """Read a chunk; None: there is none, or retention has removed it, and the stream skips it."""
        reader = self._services.reader
        reading = reader.open_range(self._ends.feed(place[0]), place[1], start, stop, ROWS_MAX)
        reading = reading._replace(uses_replicas=self._uses_replicas())
        try:
            if not self._is_filtered(place):
                return read_next_events(reader, reading, reading.tracks[0], has_details=self._rules.has_details)
            timed, has_details = bool(self._rules.timespan_seconds), self._rules.has_details
            read, is_outdated = self._parked.read_filtered(reader, place, reading, timed=timed, has_details=has_details)
        except CursorExpired:
            self._delivery.skip(place, self._ends.load([place])[place].floor)
            return None
        self._is_stale |= is_outdated
        return read
