"""The partitions of subscriptions, as functions of one transaction: begin, add partitions, lock the subscriptions.

A *slot* is one partition of a subscription: its position and the stream that owns it.
"""

from collections.abc import Mapping, Sequence

from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import subscription_identity
from penstock.errors import SubscriptionNotFound
from penstock.storage.store import Tx
from penstock.storage.subscriptions import StoredSlot, StoredSubscription


def existing(id: str, found: StoredSubscription | None) -> StoredSubscription:
    """Return what was *found* under an id.

    Raises:
        SubscriptionNotFound: it is nothing.
    """
    if found is None:
        raise SubscriptionNotFound(subscription=id)
    return found


def is_deletable(subscription: StoredSubscription) -> bool:
    """Tell whether a subscription is deleted together with its event type, as Nakadi's archiver's is."""
    owner, _, group = subscription_identity(subscription.definition)
    return (owner, group) == ("nakadi_archiver", "nakadi_to_s3")


def new_slot(place: FeedPartition, offset: int, epochs: Mapping[str, int]) -> StoredSlot:
    """Return a partition that nobody has had yet, with the offset wanted first."""
    return StoredSlot(place, None, None, None, 0, 0, epochs[place[0]], offset, 0)


def put_slots(tx: Tx, id: str, slots: Sequence[StoredSlot], now: int) -> None:
    """Record partitions of a locked subscription, with their positions."""
    tx.groups.put(id, [slot.position for slot in slots], now)
    tx.subscriptions.put_slots(id, slots)


def begin(tx: Tx, subscription: StoredSubscription, now: int) -> Sequence[StoredSlot]:
    """Return the partitions of a locked subscription, which begins now where it has not, as in Nakadi."""
    if slots := tx.subscriptions.list_slots(subscription.id):
        return slots
    put_slots(tx, subscription.id, beginning(tx, subscription), now)
    return tx.subscriptions.list_slots(subscription.id)


def beginning(tx: Tx, subscription: StoredSubscription) -> Sequence[StoredSlot]:
    """Return the partitions with which a subscription would begin now."""
    at_end = subscription.definition["read_from"] == "end"
    found = []
    for name in subscription.definition["event_types"]:
        feed = tx.registry.find(name)
        assert feed is not None, "an event type does not go while it is read"
        heads = tx.log.find_heads(feed.partition_ids)
        for number, partition_id in enumerate(feed.partition_ids):
            head = heads[partition_id]
            found.append(new_slot((name, number), head.next_offset if at_end else head.floor, {name: feed.epoch}))
    return found


def lock_readers(tx: Tx, name: str) -> Mapping[str, StoredSubscription]:
    """Lock the subscriptions that read an event type, which comes after them in the order of locks."""
    found = {each: tx.subscriptions.find(each, lock=True) for each in sorted(tx.subscriptions.list_readers(name))}
    return {each: locked for each, locked in found.items() if locked is not None}


def grow(tx: Tx, feed: StoredFeed, count: int, now: int) -> None:
    """Give each subscription that reads *feed* and has begun the partitions up to *count*, from their beginning.

    Whoever calls this has locked them: see `lock_readers`.
    """
    added = range(feed.partition_count, count)
    for reader in tx.subscriptions.list_readers(feed.name) if added else ():
        if not tx.subscriptions.list_slots(reader):
            continue
        epochs = {feed.name: feed.epoch}
        put_slots(tx, reader, [new_slot((feed.name, number), 0, epochs) for number in added], now)
        tx.subscriptions.revise(reader)
