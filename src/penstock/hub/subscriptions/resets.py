"""Resets the cursors of a subscription: ends its streams, waits for their sessions, and sets new positions.

A reset has two steps. `begin` makes all streams end, and refuses new ones. `finish` sets the positions once every
session has ended; the caller repeats it until then, since streams of other hubs may have to end too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.core.access import Sender
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.errors import HubUnavailable, SubscriptionBusy
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, record_change
from penstock.hub.subscriptions.sessions import check_partitions, is_ending, is_live
from penstock.hub.subscriptions.slots import begin_subscription, get_subscription, make_slots
from penstock.storage.groups import PositionChange
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import StoredSlot, StoredSubscription

RESET: Final = "reset"
RESET_TIMEOUT: Final = 30.0
"""A reset waits so long for streams to end."""


class PositionBefore(NamedTuple):
    """The position of a subscription in a partition before a reset."""

    epoch: int
    offset: int
    """The next offset wanted."""


class CursorResets:
    """The cursor resets of one store's subscriptions. Safe to use from many threads."""

    def __init__(self, store: Store, clock: Clock, notify_changed: Callable[[str], object]) -> None:
        """Serve resets; *notify_changed* is called with the id of a subscription whose streams have to end."""
        self._store = store
        self._clock = clock
        self._notify_changed = notify_changed

    def dry_run(self, id: str, offsets: Mapping[FeedPartition, int]) -> Mapping[FeedPartition, PositionBefore]:
        """Return the present positions in a subscription's partitions, if `begin` would accept these *offsets*.

        Raises:
            SubscriptionNotFound, InvalidSubscription, SubscriptionBusy: it would not.
        """
        with self._store.read() as tx:
            subscription = get_subscription(tx, id)
            slots = tx.subscriptions.list_slots(id) or make_slots(tx, subscription)
            _check(subscription, slots, offsets, tx.now())
        return {slot.place: PositionBefore(slot.epoch, slot.offset) for slot in slots}

    def begin(self, id: str, offsets: Mapping[FeedPartition, int]) -> bool:
        """Begin a subscription that has not begun, and if there are *offsets* to set, make its streams end.

        Return whether the caller has to call `finish`, or `cancel`.

        Raises:
            SubscriptionNotFound: there is no such subscription.
            InvalidSubscription: the subscription does not have those partitions.
            SubscriptionBusy: another reset is under way.
        """
        with self._store.write() as tx:
            subscription = get_subscription(tx, id, lock=True)
            now = tx.now()
            _check(subscription, begin_subscription(tx, subscription, now), offsets, now)
            if offsets:
                until = now + int(RESET_TIMEOUT * 1_000_000)
                tx.subscriptions.update(subscription._replace(resetting_until=until))
            tx.subscriptions.revise(id)
        self._notify_changed(id)
        return bool(offsets)

    def cancel(self, id: str) -> None:
        """Allow streams again after `finish` has failed; without this they may begin after `RESET_TIMEOUT`."""
        with self._store.write() as tx:
            subscription = tx.subscriptions.find(id, lock=True)
            if subscription is not None:
                tx.subscriptions.update(subscription._replace(resetting_until=None))

    def finish(
        self,
        id: str,
        offsets: Mapping[FeedPartition, int],
        reason: str | None = None,
        *,
        by: Sender | None = None,
    ) -> bool:
        """Set the offsets once all streams have ended; return False if some have not: call again.

        The partitions lose their failures and parked keys.

        Raises:
            SubscriptionNotFound: the subscription was deleted meanwhile.
            HubUnavailable: some streams did not end in time; no offset was set.
        """
        with self._store.write() as tx:
            subscription = get_subscription(tx, id, lock=True)
            now = tx.now()
            sessions = tx.subscriptions.list_sessions(id)
            slots = tx.subscriptions.list_slots(id)
            if live := [each for each in sessions if is_live(each, now) or is_ending(each, slots, now)]:
                if now < (subscription.resetting_until or 0):
                    return False
                raise HubUnavailable.of("streams-in-the-way", subscription=id, streams=len(live), retry_after=1)
            tx.subscriptions.delete_sessions([each.id for each in sessions])
            before = self._set(tx, id, offsets, reason)
            tx.subscriptions.update(subscription._replace(resetting_until=None))
            tx.subscriptions.revise(id)
            if offsets:
                change = AuditedChange("cursors", id, _describe(before), _describe(offsets), reason)
                record_change(tx, change, by, self._clock())
        return True

    def _set(
        self, tx: Tx, id: str, offsets: Mapping[FeedPartition, int], reason: str | None
    ) -> Mapping[FeedPartition, int]:
        """Set the offsets, and return those before."""
        slots, now = {slot.place: slot for slot in tx.subscriptions.list_slots(id)}, self._clock()
        tx.subscriptions.put_slots(id, [_clear(slot, is_reset=slot.place in offsets) for slot in slots.values()])
        if offsets:
            parked = tx.subscriptions.list_parked(id, counted=False)
            tx.subscriptions.acknowledge_parked({key.id: key.last for key in parked if key.place in offsets})
        changes = [
            PositionChange(place[0], "", place[1], RESET, slots[place].epoch, slots[place].offset, offset, reason, now)
            for place, offset in sorted(offsets.items())
        ]
        moved = [slots[place]._replace(offset=offset).position for place, offset in offsets.items()]
        tx.groups.put(id, moved, now, changes)
        return {place: slots[place].offset for place in offsets}


def _describe(offsets: Mapping[FeedPartition, int]) -> Mapping[str, Any]:
    """Return offsets for the audit log."""
    items = [
        {"event_type": name, "partition": str(number), "offset": offset}
        for (name, number), offset in sorted(offsets.items())
    ]
    return {"items": items}


def _check(
    subscription: StoredSubscription, slots: Sequence[StoredSlot], offsets: Mapping[FeedPartition, int], now: int
) -> None:
    check_partitions([slot.place for slot in slots], offsets)
    if (subscription.resetting_until or 0) > now:
        raise SubscriptionBusy.of("reset-under-way", subscription=subscription.id)


def _clear(slot: StoredSlot, *, is_reset: bool) -> StoredSlot:
    """Return a partition without an owner; if it *is_reset*, also without failures."""
    free = slot._replace(owner=None, successor=None, sent=None)
    return free._replace(failed=0, single_until=0) if is_reset else free
