"""The streams of subscriptions: who begins one, what they commit, and who moves their cursors over their heads."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from penstock.core.registry.definition import PENSTOCK, Limits
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.delivery import DeliveryRules
from penstock.errors import ResetUnderWay, StreamsInTheWay
from penstock.hub.background import Clock
from penstock.hub.log.read import Reader
from penstock.hub.log.watch import Watch
from penstock.hub.subscriptions.commits import Commit, Commits
from penstock.hub.subscriptions.live import Live
from penstock.hub.subscriptions.parking import Retries
from penstock.hub.subscriptions.sessions import Ended, Look, Sessions, check_places, is_being_sent, is_live
from penstock.hub.subscriptions.slots import begin, beginning, existing
from penstock.hub.subscriptions.stream import Parts, Stream
from penstock.storage.groups import PositionChange
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import StoredSlot, StoredSubscription

RESET: Final = "reset"
RESET_TIMEOUT: Final = 30.0
"""So long a reset waits for streams to end."""


class Streams:
    """The streams of one store's subscriptions. Safe to use from many threads."""

    def __init__(self, store: Store, clock: Clock, reader: Reader, watch: Watch, limits: Limits = PENSTOCK) -> None:
        self._store = store
        self._clock = clock
        self._reader = reader
        self._watch = watch
        hub_id = uuid.uuid4().hex
        self.sessions = Sessions(store, Retries(clock, limits), hub_id)
        self.live = Live(store, self.sessions.sweep, hub_id, end=self._end)
        self.commits = Commits(store, clock, self.sessions, self.live.was_sent, self.live.moved, strict=limits.strict)

    def open(
        self,
        id: str,
        wants: Collection[FeedPartition],
        rules: DeliveryRules,
        allowed: Callable[[], None] = lambda: None,
    ) -> Stream:
        """Begin a stream: see `Sessions.open` and `Stream`; whoever has it calls its `close` in the end."""
        if not self.live.lasts:
            self.live.renew()
        lapses = self.live.lapses
        commit_ms = max(1, round(rules.commit_timeout * 1000))
        opened = self.sessions.open(id, wants, batch_limit=rules.batch_limit, commit_ms=commit_ms)
        parts = Parts(self._store, self._reader, self._watch, self.live, self.sessions, self.commits)
        stream = Stream(parts, opened, rules, lapses, allowed=allowed)
        self.live.changed(id)
        return stream

    def look(self, id: str, *, counts: bool = False) -> Look:
        """Return what a subscription is now: see `Sessions.look`."""
        return self.sessions.look(id, counts=counts)

    def glance(self, subscriptions: Sequence[StoredSubscription]) -> Sequence[Look]:
        """Return who has which partition of each: see `Sessions.glance`."""
        return self.sessions.glance(subscriptions)

    def commit(self, id: str, stream_id: str, commits: Sequence[Commit]) -> "Future[Sequence[bool]]":
        """Commit cursors of a stream: see `Commits.submit`."""
        return self.commits.submit(id, stream_id, commits)

    def extend(self, id: str, stream_id: str) -> None:
        """Begin anew the time in which a stream has to commit: see `Sessions.extend`."""
        self.sessions.extend(id, stream_id)
        self.live.changed(id)

    def give_back(
        self,
        id: str,
        stream_id: str,
        keep: Collection[FeedPartition] = (),
        failed: Collection[FeedPartition] | None = None,
    ) -> bool:
        """End a stream, and let others have what it has not committed: see `Sessions.give_back`."""
        try:
            return self.sessions.give_back(id, stream_id, keep, failed)
        finally:
            self.live.changed(id)

    def ages(self, offsets: Mapping[int, int]) -> Mapping[int, int]:
        """Return how many microseconds ago what is wanted next of partitions was received, where it is there."""
        with self._store.read() as tx:
            received = tx.log.find_receive_times(offsets)
        now = self._clock()
        return {partition_id: max(0, now - at) for partition_id, at in received.items()}

    def rehearse_reset(self, id: str, offsets: Mapping[FeedPartition, int]) -> Mapping[FeedPartition, int]:
        """Return the epochs of a subscription's partitions, where `begin_reset` would take these *offsets*.

        Raises:
            SubscriptionNotFound, InvalidSubscription, ResetUnderWay: it would not.
        """
        with self._store.read() as tx:
            subscription = existing(id, tx.subscriptions.find(id))
            slots = tx.subscriptions.list_slots(id) or beginning(tx, subscription)
            _check_reset(subscription, slots, offsets, tx.now())
        return {slot.place: slot.epoch for slot in slots}

    def begin_reset(self, id: str, offsets: Mapping[FeedPartition, int]) -> bool:
        """Begin a subscription where it has not, and have its streams end if there are *offsets* to be set.

        Tell whether `end_reset` has to follow, or `abandon_reset`.

        Raises:
            SubscriptionNotFound: there is none.
            InvalidSubscription: it does not have those partitions.
            ResetUnderWay: somebody else is doing it.
        """
        with self._store.write() as tx:
            subscription = existing(id, tx.subscriptions.find(id, lock=True))
            now = tx.now()
            _check_reset(subscription, begin(tx, subscription, now), offsets, now)
            if offsets:
                until = now + int(RESET_TIMEOUT * 1_000_000)
                tx.subscriptions.update(subscription._replace(resetting_until=until))
            tx.subscriptions.revise(id)
        self.live.changed(id)
        return bool(offsets)

    def abandon_reset(self, id: str) -> None:
        """Let streams begin again, where `end_reset` has failed; else they may after `RESET_TIMEOUT`."""
        with self._store.write() as tx:
            subscription = tx.subscriptions.find(id, lock=True)
            if subscription is not None:
                tx.subscriptions.update(subscription._replace(resetting_until=None))

    def end_reset(self, id: str, offsets: Mapping[FeedPartition, int], reason: str | None = None) -> bool:
        """Set offsets, once all streams have ended; False: some have not, ask again.

        What could not be processed of these partitions is forgotten, parked keys too: they begin anew from there on.

        Raises:
            SubscriptionNotFound: it is gone by now.
            StreamsInTheWay: some streams do not end; nothing was set.
        """
        with self._store.write() as tx:
            subscription = existing(id, tx.subscriptions.find(id, lock=True))
            now = tx.now()
            sessions = tx.subscriptions.list_sessions(id)
            slots = tx.subscriptions.list_slots(id)
            if live := [each for each in sessions if is_live(each, now) or is_being_sent(each, slots, now)]:
                if now < (subscription.resetting_until or 0):
                    return False
                raise StreamsInTheWay(subscription=id, streams=len(live), retry_after=1)
            tx.subscriptions.delete_sessions([each.id for each in sessions])
            self._set(tx, id, offsets, reason)
            tx.subscriptions.update(subscription._replace(resetting_until=None))
            tx.subscriptions.revise(id)
        return True

    def _set(self, tx: Tx, id: str, offsets: Mapping[FeedPartition, int], reason: str | None) -> None:
        slots, now = {slot.place: slot for slot in tx.subscriptions.list_slots(id)}, self._clock()
        tx.subscriptions.put_slots(id, [_fresh(slot, reset=slot.place in offsets) for slot in slots.values()])
        if offsets:
            parked = tx.subscriptions.list_parked(id, counted=False)
            tx.subscriptions.acknowledge_parked({key.id: key.last for key in parked if key.place in offsets})
        changes = [
            PositionChange(place[0], "", place[1], RESET, slots[place].epoch, slots[place].offset, offset, reason, now)
            for place, offset in sorted(offsets.items())
        ]
        moved = [slots[place]._replace(offset=offset).position for place, offset in offsets.items()]
        tx.groups.put(id, moved, now, changes)

    def _end(self, id: str, session_id: str) -> None:
        self.sessions.end(id, session_id, Ended({}, 0))
        self.live.changed(id)

    def stop(self, timeout: float | None = None) -> bool:
        """Commit what is queued, and end; tell whether that was within *timeout*."""
        return all([self.commits.stop(timeout), self.live.stop(timeout)])


def _check_reset(
    subscription: StoredSubscription, slots: Sequence[StoredSlot], offsets: Mapping[FeedPartition, int], now: int
) -> None:
    check_places([slot.place for slot in slots], offsets)
    if (subscription.resetting_until or 0) > now:
        raise ResetUnderWay(subscription=subscription.id)


def _fresh(slot: StoredSlot, *, reset: bool) -> StoredSlot:
    """Return a partition that nobody has; where it is *reset*, nothing has failed of it."""
    free = slot._replace(owner=None, heir=None, sent=None)
    return free._replace(failed=0, single_until=0) if reset else free
