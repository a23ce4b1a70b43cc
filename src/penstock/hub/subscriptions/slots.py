"""Functions for subscriptions and their partitions inside a transaction: find, lock, begin, add partitions.

A *slot* is a partition of a subscription: its position, and the session that owns it. A subscription begins with its
first stream, as in Nakadi; before that it has no slots.
"""

from collections.abc import Mapping, Sequence

from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import subscription_identity
from penstock.errors import SubscriptionNotFound
from penstock.storage.store import Tx
from penstock.storage.subscriptions import StoredSlot, StoredSubscription


def get_subscription(tx: Tx, id: str, *, lock: bool = False) -> StoredSubscription:
    """Return a subscription, locked until the transaction ends if *lock*.

    Raises:
        SubscriptionNotFound: there is no such subscription.
    """
    subscription = tx.subscriptions.find(id, lock=lock)
    if subscription is None:
        raise SubscriptionNotFound(subscription=id)
    return subscription


def is_deleted_with_event_type(subscription: StoredSubscription) -> bool:
    """Return whether a subscription does not protect its event types from deletion: Nakadi's archiver does not."""
    owner, _, group = subscription_identity(subscription.definition)
    return (owner, group) == ("nakadi_archiver", "nakadi_to_s3")


def make_slot(place: FeedPartition, offset: int, epochs: Mapping[str, int]) -> StoredSlot:
    """Return a partition without an owner, whose position is *offset*; *epochs* are those of the event types."""
    return StoredSlot(place, None, None, None, 0, 0, epochs[place[0]], offset, 0)


def put_slots(tx: Tx, id: str, slots: Sequence[StoredSlot], now: int) -> None:
    """Record partitions of a locked subscription, with their positions."""
    tx.groups.put(id, [slot.position for slot in slots], now)
    tx.subscriptions.put_slots(id, slots)


def begin_subscription(tx: Tx, subscription: StoredSubscription, now: int) -> Sequence[StoredSlot]:
    """Return the partitions of a locked subscription; begin it if it has not begun."""
    if slots := tx.subscriptions.list_slots(subscription.id):
        return slots
    put_slots(tx, subscription.id, make_slots(tx, subscription), now)
    return tx.subscriptions.list_slots(subscription.id)


def make_slots(tx: Tx, subscription: StoredSubscription) -> Sequence[StoredSlot]:
    """Return the partitions with which a subscription would begin now."""
    at_end = subscription.definition["read_from"] == "end"
    slots = []
    for name in subscription.definition["event_types"]:
        feed = tx.registry.find(name)
        assert feed is not None, "an event type that a subscription reads cannot be deleted"
        heads = tx.log.find_heads(feed.partition_ids)
        for number, partition_id in enumerate(feed.partition_ids):
            head = heads[partition_id]
            slots.append(make_slot((name, number), head.next_offset if at_end else head.floor, {name: feed.epoch}))
    return slots


def lock_readers(tx: Tx, name: str) -> Mapping[str, StoredSubscription]:
    """Lock the subscriptions that read an event type, and return them by id; lock the event type after them."""
    readers = {each: tx.subscriptions.find(each, lock=True) for each in sorted(tx.subscriptions.list_readers(name))}
    return {each: subscription for each, subscription in readers.items() if subscription is not None}


def add_partitions(tx: Tx, feed: StoredFeed, count: int, now: int) -> None:
    """Add the partitions up to *count*, from their beginning, to each subscription that reads *feed* and has begun.

    The caller has locked the subscriptions with `lock_readers`.
    """
    added = range(feed.partition_count, count)
    for reader in tx.subscriptions.list_readers(feed.name) if added else ():
        if not tx.subscriptions.list_slots(reader):
            continue
        epochs = {feed.name: feed.epoch}
        put_slots(tx, reader, [make_slot((feed.name, number), 0, epochs) for number in added], now)
        tx.subscriptions.revise(reader)
