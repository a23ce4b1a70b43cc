"""Keeps the parked keys of subscriptions: streams add and resend their events, operators list, retry and skip them.

A key is parked after an event of it could not be processed: see `poison_events`. Its later events wait behind that one.
docs/decisions/parked-keys.md gives the reasons.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final

from penstock.core.access import Sender
from penstock.core.log.details import EventDetails
from penstock.core.subscriptions.delivery import EventChunk
from penstock.errors import ParkedNotFound, SubscriptionNotFound
from penstock.hub.background import Clock
from penstock.hub.changes import AuditedChange, record_changes
from penstock.hub.log.read import ColumnChunk, ReadRange, find_details
from penstock.hub.subscriptions.poison_events import SKIPPED
from penstock.hub.subscriptions.slots import get_subscription
from penstock.storage.cold.loading import load_and_repeat
from penstock.storage.groups import PositionChange
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import StoredParkedKey, StoredSlot

PASSED_MAX: Final = 10_000
"""Maximum number of events of each parked key that the position passes when a key is skipped."""


PARKED_SECONDS: Final = 365 * 86_400.0
"""The seconds for which a key stays parked without a retry or skip."""
EXPIRED_MAX: Final = 100
"""The number of keys that are skipped at once because they are parked for too long."""


class ParkedKeys:
    """The parked keys of one store's subscriptions. Safe to use from many threads."""

    def __init__(self, store: Store, clock: Clock, notify_changed: Callable[[str], object]) -> None:
        """Serve the parked keys of *store*.

        *notify_changed* is called with the id of a subscription after its parked keys have changed.
        """
        self._store = store
        self._clock = clock
        self._notify_changed = notify_changed

    def list(self, id: str) -> Sequence[StoredParkedKey]:
        """Return the parked keys of a subscription, in the order in which they were parked.

        Raises:
            SubscriptionNotFound: there is no such subscription.
        """
        with self._store.read() as tx:
            get_subscription(tx, id)
            return tx.subscriptions.list_parked(id)

    def find(self, id: str, parked_id: int) -> StoredParkedKey:
        """Return a parked key.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is no such subscription, or no such key.
        """
        return _select(id, parked_id, self.list(id))

    def read_events(self, parked: StoredParkedKey, limit: int) -> Sequence[tuple[int, bytes]]:
        """Return the offsets and data of up to *limit* of the first events of a key, as far as the log has them."""
        name, number = parked.place

        def read() -> Sequence[tuple[int, bytes]]:
            with self._store.read() as tx:
                partition_id = tx.registry.get(name).partition_ids[number]
                offsets = tx.subscriptions.list_parked_offsets(parked.id, after=parked.first - 1, limit=limit)
                columns = [tx.log.read_columns(partition_id, offset, offset + 1) for offset in offsets]
            return [(offset, each.data) for offset, each in zip(offsets, columns, strict=True) if each.rows]

        return load_and_repeat(read)

    def retry(self, id: str, parked_id: int | None = None, by: Sender | None = None) -> int:
        """Resend the events of a parked key, or of all, to the owner of the partition; return the number of keys.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is no such subscription, or no such key.
        """
        with self._store.write() as tx:
            keys = self._lock(tx, id, parked_id)
            tx.subscriptions.mark_parked([each.id for each in keys], retried=True)
            tx.subscriptions.revise(id)
            changes = [_describe_change(id, each, "retrying") for each in keys]
            record_changes(tx, changes, by, self._clock())
        self._notify_changed(id)
        return len(keys)

    def skip(self, id: str, parked_id: int, reason: str, by: Sender | None = None) -> None:
        """Skip the parked events of a key that lie below the position of its partition.

        They stay in the log, and are not sent again. Parked events above the position are resent once it has passed
        them, as if the key were retried: a stream may or may not have left them out yet.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is no such subscription, or no such key.
        """
        with self._store.write() as tx:
            [parked] = self._lock(tx, id, parked_id)
            slot = next(slot for slot in tx.subscriptions.list_slots(id) if slot.place == parked.place)
            position = _find_position(tx, id, slot)
            tx.subscriptions.acknowledge_parked({parked.id: position - 1})
            tx.subscriptions.mark_parked([parked.id], retried=True)
            name, number = parked.place
            note = f"{reason} (key {parked.key})" if parked.key is not None else reason
            end = max(parked.first, min(parked.last + 1, position))
            change = PositionChange(name, "", number, SKIPPED, slot.epoch, parked.first, end, note, self._clock())
            tx.groups.put(id, [slot._replace(offset=position).position], self._clock(), [change])
            tx.subscriptions.revise(id)
            record_changes(tx, [_describe_change(id, parked, "skipped", reason)], by, self._clock())
        self._notify_changed(id)

    def expire(self, now: int, pause: Callable[[float], bool] = lambda seconds: False) -> None:  # noqa: ARG005
        """Skip keys that are parked for too long. *pause*: see `penstock.hub.admin.sweeping.SweepTask`."""
        with self._store.read() as tx:
            found = tx.subscriptions.list_old_parked(now - int(PARKED_SECONDS * 1_000_000), EXPIRED_MAX)
        for subscription, parked_id in found:
            began = time.monotonic()
            with suppress(SubscriptionNotFound, ParkedNotFound):  # An operator was faster.
                self.skip(subscription, parked_id, "nobody has retried or skipped it for too long")
            if pause(time.monotonic() - began):
                return

    def park(self, id: str, session_id: str, offsets: Mapping[int, Sequence[int]]) -> Collection[int]:
        """Park events behind earlier ones of their keys, by the ids of parked keys; return the ids still parked.

        Events of the other keys are to be sent. If the session has lost a partition, its events are not parked: the
        new owner may have sent them since.
        """
        with self._store.write() as tx:
            tx.subscriptions.find(id, lock=True)
            own = {slot.place: slot.offset for slot in tx.subscriptions.list_slots(id) if slot.owner == session_id}
            waiting = {
                each.id: each.place for each in tx.subscriptions.list_parked(id, counted=False) if each.id in offsets
            }
            tx.subscriptions.add_parked(
                {
                    each: [offset for offset in offsets[each] if offset >= own[place]]
                    for each, place in waiting.items()
                    if place in own
                }
            )
        return waiting.keys()

    def read_resendable(self, id: str, parked: StoredParkedKey, below: int, limit: int) -> EventChunk:
        """Return a parked key's first events *below* an offset, as far as the log has them, with their details.

        If retention has removed all of them, they are acknowledged.
        """
        kept, after = load_and_repeat(partial(self._find_resendable, parked, below, limit))
        if kept:
            data = [each.columns.data for each in kept]
            details = EventDetails.join([find_details(each, parked.place[0]) for each in kept])
            return EventChunk(data, [each.range.start for each in kept], kept[-1].range.stop, details=details)
        with self._store.write() as tx:
            tx.subscriptions.find(id, lock=True)
            tx.subscriptions.acknowledge_parked({parked.id: after})
            tx.subscriptions.revise(id)
        return EventChunk((), (), below)

    def _find_resendable(self, parked: StoredParkedKey, below: int, limit: int) -> tuple[Sequence[ColumnChunk], int]:
        """Return the first events that are there, and the last offset before them."""
        name, number = parked.place
        after = parked.first - 1
        with self._store.read() as tx:
            partition_id = tx.registry.get(name).partition_ids[number]
            while offsets := [
                at for at in tx.subscriptions.list_parked_offsets(parked.id, after=after, limit=limit) if at < below
            ]:
                columns = {offset: tx.log.read_columns(partition_id, offset, offset + 1) for offset in offsets}
                kept = [
                    ColumnChunk(ReadRange(number, partition_id, offset, offset + 1), each, [offset])
                    for offset, each in columns.items()
                    if each.rows
                ]
                if kept:
                    return kept, after
                after = offsets[-1]
        return [], after

    def _lock(self, tx: Tx, id: str, parked_id: int | None) -> Collection[StoredParkedKey]:
        """Lock a subscription, and return one of its parked keys, or all."""
        get_subscription(tx, id, lock=True)
        keys = tx.subscriptions.list_parked(id)
        return keys if parked_id is None else [_select(id, parked_id, keys)]


def _find_position(tx: Tx, id: str, slot: StoredSlot) -> int:
    """Return the position of a partition after parked events that follow it at once: streams leave them out."""
    keys = [each.id for each in tx.subscriptions.list_parked(id, counted=False) if each.place == slot.place]
    parked_offsets = {
        at
        for each in keys
        for at in tx.subscriptions.list_parked_offsets(each, after=slot.offset - 1, limit=PASSED_MAX)
    }
    return next(offset for offset in count(slot.offset) if offset not in parked_offsets)


def _describe_change(id: str, parked: StoredParkedKey, state: str, reason: str | None = None) -> AuditedChange:
    """Return what becomes of a parked key, for the audit log."""
    (name, number), before = parked.place, "retrying" if parked.is_retried else "parked"
    shown = {
        "subscription_id": id,
        "event_type": name,
        "partition": str(number),
        "key": parked.key,
        "first_offset": parked.first,
        "last_offset": parked.last,
    }
    return AuditedChange("parked_key", str(parked.id), shown | {"state": before}, shown | {"state": state}, reason)


def _select(id: str, parked_id: int, keys: Sequence[StoredParkedKey]) -> StoredParkedKey:
    for each in keys:
        if each.id == parked_id:
            return each
    raise ParkedNotFound(subscription=id, parked=parked_id)
