"""Opens and ends the streams of this hub process, and resets cursors while no stream runs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.delivery import DeliveryRules
from penstock.errors import ResetUnderWay, StreamsInTheWay
from penstock.hub.background import Clock
from penstock.hub.subscriptions.sessions import check_partitions, is_ending, is_live
from penstock.hub.subscriptions.slots import begin, beginning, existing
from penstock.hub.subscriptions.stream import ConsumerStream, StreamServices
from penstock.storage.groups import PositionChange
from penstock.storage.store import Tx
from penstock.storage.subscriptions import StoredSlot, StoredSubscription

RESET: Final = "reset"
RESET_TIMEOUT: Final = 30.0
"""A reset waits so long for streams to end."""


class Streams:
    """The streams of one store's subscriptions. Safe to use from many threads."""

    def __init__(self, clock: Clock, services: StreamServices) -> None:
        self._clock = clock
        self._services = services
        self._store = services.store

    def open(
        self,
        id: str,
        wants: Collection[FeedPartition],
        rules: DeliveryRules,
        check_access: Callable[[], None] = lambda: None,
    ) -> ConsumerStream:
        """Open a session and start its stream; the caller closes the stream. See `Sessions.open`."""
        services = self._services
        if not services.lease.outlasts_renewal:
            services.lease.renew()
        lapses = services.lease.lapses
        commit_ms = max(1, round(rules.commit_timeout * 1000))
        opened = services.sessions.open(id, wants, batch_limit=rules.batch_limit, commit_ms=commit_ms)
        stream = ConsumerStream(services, opened, rules, lapses, check_access=check_access)
        self._notify_changed(id)
        return stream

    def extend(self, id: str, stream_id: str) -> None:
        """Restart the commit timeout of a stream: see `Sessions.extend`."""
        self._services.sessions.extend(id, stream_id)
        self._notify_changed(id)

    def release(
        self,
        id: str,
        stream_id: str,
        keep: Collection[FeedPartition] = (),
        failed: Collection[FeedPartition] | None = None,
    ) -> bool:
        """End a stream, and release its uncommitted partitions: see `Sessions.release`."""
        try:
            return self._services.sessions.release(id, stream_id, keep, failed)
        finally:
            self._notify_changed(id)

    def _notify_changed(self, id: str) -> None:
        self._services.local_streams.notify_changed(id)

    def ages(self, offsets: Mapping[int, int]) -> Mapping[int, int]:
        """Return for each partition how many microseconds ago the hub received the event at an offset, if it has it."""
        with self._store.read() as tx:
            received = tx.log.find_receive_times(offsets)
        now = self._clock()
        return {partition_id: max(0, now - at) for partition_id, at in received.items()}

    def dry_run_reset(self, id: str, offsets: Mapping[FeedPartition, int]) -> Mapping[FeedPartition, int]:
        """Return the epochs of a subscription's partitions, if `begin_reset` would accept these *offsets*.

        Raises:
            SubscriptionNotFound, InvalidSubscription, ResetUnderWay: it would not.
        """
        with self._store.read() as tx:
            subscription = existing(id, tx.subscriptions.find(id))
            slots = tx.subscriptions.list_slots(id) or beginning(tx, subscription)
            _check_reset(subscription, slots, offsets, tx.now())
        return {slot.place: slot.epoch for slot in slots}

    def begin_reset(self, id: str, offsets: Mapping[FeedPartition, int]) -> bool:
        """Begin a subscription that has not begun, and if there are *offsets* to set, make its streams end.

        Return whether the caller has to call `finish_reset`, or `cancel_reset`.

        Raises:
            SubscriptionNotFound: there is no such subscription.
            InvalidSubscription: the subscription does not have those partitions.
            ResetUnderWay: another reset is under way.
        """
        with self._store.write() as tx:
            subscription = existing(id, tx.subscriptions.find(id, lock=True))
            now = tx.now()
            _check_reset(subscription, begin(tx, subscription, now), offsets, now)
            if offsets:
                until = now + int(RESET_TIMEOUT * 1_000_000)
                tx.subscriptions.update(subscription._replace(resetting_until=until))
            tx.subscriptions.revise(id)
        self._notify_changed(id)
        return bool(offsets)

    def cancel_reset(self, id: str) -> None:
        """Allow streams again after `finish_reset` has failed; without this they may begin after `RESET_TIMEOUT`."""
        with self._store.write() as tx:
            subscription = tx.subscriptions.find(id, lock=True)
            if subscription is not None:
                tx.subscriptions.update(subscription._replace(resetting_until=None))

    def finish_reset(self, id: str, offsets: Mapping[FeedPartition, int], reason: str | None = None) -> bool:
        """Set the offsets once all streams have ended; return False if some have not: call again.

        The partitions lose their failures and parked keys.

        Raises:
            SubscriptionNotFound: the subscription was deleted meanwhile.
            StreamsInTheWay: some streams did not end in time; no offset was set.
        """
        with self._store.write() as tx:
            subscription = existing(id, tx.subscriptions.find(id, lock=True))
            now = tx.now()
            sessions = tx.subscriptions.list_sessions(id)
            slots = tx.subscriptions.list_slots(id)
            if live := [each for each in sessions if is_live(each, now) or is_ending(each, slots, now)]:
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


def _check_reset(
    subscription: StoredSubscription, slots: Sequence[StoredSlot], offsets: Mapping[FeedPartition, int], now: int
) -> None:
    check_partitions([slot.place for slot in slots], offsets)
    if (subscription.resetting_until or 0) > now:
        raise ResetUnderWay(subscription=subscription.id)


def _fresh(slot: StoredSlot, *, reset: bool) -> StoredSlot:
    """Return a partition that nobody has; where it is *reset*, nothing has failed of it."""
    free = slot._replace(owner=None, heir=None, sent=None)
    return free._replace(failed=0, single_until=0) if reset else free
