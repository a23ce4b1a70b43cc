"""Gives up events that a consumer cannot process, and keeps the keys that are parked because of them.

A subscription says how often an event is sent, and what happens then: skip, dead letter, or park its key. Parked keys
can be listed, sent again and skipped. docs/decisions/parked-keys.md gives the reasons.
"""

import uuid
from collections.abc import Callable, Collection, Sequence
from itertools import count
from typing import Any, Final

import msgspec
import structlog

from penstock.core.events.event import NewEvent
from penstock.core.registry.definition import PENSTOCK, Limits
from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import UnprocessablePolicy, start_partition, unprocessable_policy_of
from penstock.errors import DatabaseUnavailable, Invalid, ParkedNotFound, TooLarge
from penstock.hub.background import Clock, rfc3339
from penstock.hub.log.publish import NewEvents, prepare
from penstock.hub.log.read import CHUNK_ROWS, ColumnChunk, ReadRange, Rows
from penstock.hub.log.request import append_rows, lock_heads
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS, locked_dead_letters
from penstock.hub.subscriptions.slots import existing
from penstock.storage.groups import PositionChange
from penstock.storage.log.events import DELETION
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import StoredParkedKey, StoredSession, StoredSlot, StoredSubscription

SKIPPED: Final = "skipped"
PASSED_MAX: Final = 10_000
"""So many events of a key are passed over at once."""


class Parking:
    """The parked keys of one store's subscriptions."""

    def __init__(self, store: Store, clock: Clock, notify_changed: Callable[[str], object]) -> None:
        """*notify_changed* is called with the id of a subscription after its parked keys have changed."""
        self._store = store
        self._clock = clock
        self._notify_changed = notify_changed

    def list(self, id: str) -> Sequence[StoredParkedKey]:
        """Return the parked keys of a subscription, those first that were parked first.

        Raises:
            SubscriptionNotFound: there is none.
        """
        with self._store.read() as tx:
            existing(id, tx.subscriptions.find(id))
            return tx.subscriptions.list_parked(id)

    def find(self, id: str, parked_id: int) -> StoredParkedKey:
        """Return a parked key.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is none.
        """
        return _one(id, parked_id, self.list(id))

    def events(self, parked: StoredParkedKey, limit: int) -> Sequence[tuple[int, bytes]]:
        """Return the offsets and the data of up to *limit* of its first events, as far as they are still there."""
        name, number = parked.place
        with self._store.read() as tx:
            partition_id = tx.registry.get(name).partition_ids[number]
            offsets = tx.subscriptions.list_parked_offsets(parked.id, after=parked.first - 1, limit=limit)
            columns = [tx.log.read_columns(partition_id, offset, offset + 1) for offset in offsets]
        return [(offset, each.data) for offset, each in zip(offsets, columns, strict=True) if each.rows]

    def retry(self, id: str, parked_id: int | None = None) -> int:
        """Have a parked key, None: all, sent again to whoever has its partition; return how many there are.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is none.
        """
        with self._store.write() as tx:
            wanted = self._wanted(tx, id, parked_id)
            tx.subscriptions.mark_parked([each.id for each in wanted], retried=True)
            tx.subscriptions.revise(id)
        self._notify_changed(id)
        return len(wanted)

    def skip(self, id: str, parked_id: int, reason: str) -> None:
        """Have the events of a parked key wait no longer that lie behind the position of its partition.

        They stay in the log, and are not sent again. Those ahead of it, behind events that are not committed yet, are
        sent once it has passed them, as if the key were retried: nobody can tell whether a stream has left them out.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is none.
        """
        with self._store.write() as tx:
            [parked] = self._wanted(tx, id, parked_id)
            slot = next(slot for slot in tx.subscriptions.list_slots(id) if slot.place == parked.place)
            position = _position(tx, id, slot)
            tx.subscriptions.acknowledge_parked({parked.id: position - 1})
            tx.subscriptions.mark_parked([parked.id], retried=True)
            name, number = parked.place
            said = f"{reason} (key {parked.key})" if parked.key is not None else reason
            end = max(parked.first, min(parked.last + 1, position))
            done = PositionChange(name, "", number, SKIPPED, slot.epoch, parked.first, end, said, self._clock())
            tx.groups.put(id, [slot._replace(offset=position).position], self._clock(), [done])
            tx.subscriptions.revise(id)
        self._notify_changed(id)

    def _wanted(self, tx: Tx, id: str, parked_id: int | None) -> Collection[StoredParkedKey]:
        existing(id, tx.subscriptions.find(id, lock=True))
        found = tx.subscriptions.list_parked(id)
        return found if parked_id is None else [_one(id, parked_id, found)]


def _position(tx: Tx, id: str, slot: StoredSlot) -> int:
    """Return the position of a partition, behind those events from there on that wait: streams pass over them."""
    keys = [each.id for each in tx.subscriptions.list_parked(id, counted=False) if each.place == slot.place]
    waiting = {
        at
        for each in keys
        for at in tx.subscriptions.list_parked_offsets(each, after=slot.offset - 1, limit=PASSED_MAX)
    }
    return next(offset for offset in count(slot.offset) if offset not in waiting)


def _one(id: str, parked_id: int, found: Sequence[StoredParkedKey]) -> StoredParkedKey:
    for each in found:
        if each.id == parked_id:
            return each
    raise ParkedNotFound(subscription=id, parked=parked_id)


_log: Final = structlog.get_logger("penstock.retrying")


class Found(msgspec.Struct):
    """An event that was tried often enough."""

    feed: StoredFeed
    place: FeedPartition
    offset: int
    key: str | None
    data: bytes
    passed: dict[int, list[int]]
    """What lies before it and waits, by the ids of the parked keys."""


class Retries:
    """What becomes of events that could not be processed, in one store."""

    def __init__(self, clock: Clock, limits: Limits = PENSTOCK) -> None:
        self._clock = clock
        self._limits = limits

    def begun(self, tx: Tx, subscription: StoredSubscription, slot: StoredSlot, session: StoredSession) -> StoredSlot:
        """Return what a partition is for a stream that begins with it; an event that was tried enough is given up."""
        retrying = unprocessable_policy_of(subscription.definition)
        if retrying is None:
            return slot._replace(failed=0, single_until=0)
        begins = start_partition(
            slot.failed, slot.offset, slot.single_until, limit=retrying.send_count, batch_limit=session.batch_limit
        )
        slot = slot._replace(failed=begins.failed, single_until=begins.single_until)
        return self._without_next(tx, subscription, slot, retrying) if begins.gives_up else slot

    def _without_next(
        self, tx: Tx, subscription: StoredSubscription, slot: StoredSlot, retrying: UnprocessablePolicy
    ) -> StoredSlot:
        """Give up the next event of a partition, which waits or lies in the log from now on, and go on behind it."""
        found = _next_event(tx, subscription.id, slot)
        if found is None:
            return slot
        tx.subscriptions.add_parked(found.passed)
        given: dict[str, Any] = {"attempts": retrying.send_count, "at": self._clock()}
        changes: list[PositionChange] = []
        if retrying.policy == "PARK_KEY":
            tx.subscriptions.park(subscription.id, slot.place, found.key, found.offset, **given)
        elif retrying.policy == "DEAD_LETTER_QUEUE" and not self._keep(tx, subscription, found, retrying.send_count):
            tx.subscriptions.park(subscription.id, slot.place, None, found.offset, **given)
        else:
            changes.append(self._skipped(found, retrying))
        slot = slot._replace(offset=found.offset + 1)
        tx.groups.put(subscription.id, [slot.position], self._clock(), changes)
        return slot

    def _skipped(self, found: Found, retrying: UnprocessablePolicy) -> PositionChange:
        """Return the entry of the subscription's history about an event that was skipped."""
        (name, number), offset = found.place, found.offset
        where = f"; {DEAD_LETTERS} has it" if retrying.policy == "DEAD_LETTER_QUEUE" else ""
        reason = _in_vain(retrying.send_count) + where
        return PositionChange(name, "", number, SKIPPED, found.feed.epoch, offset, offset + 1, reason, self._clock())

    def _keep(self, tx: Tx, subscription: StoredSubscription, found: Found, attempts: int) -> bool:
        """Publish an event to the dead letters, in this very transaction; False: they do not take it.

        It may be too large or too deep with what is written about it, or they may have another schema by now.
        """
        feed = locked_dead_letters(tx, self._limits, self._clock())  # The next event may go to any of its partitions.
        event = {
            "metadata": {"eid": str(uuid.uuid4()), "occurred_at": rfc3339(self._clock())},
            "subscription_id": subscription.id,
            "event_type": found.place[0],
            "partition": str(found.place[1]),
            "offset": f"001-{found.feed.epoch:04x}-{found.offset:018d}",
            "error": {"message": _in_vain(attempts)},
            "event": msgspec.Raw(found.data),
        }
        try:
            prepared = prepare(feed, NewEvents([NewEvent.of(msgspec.json.encode(event))]), self._clock())
        except (Invalid, TooLarge) as error:
            _log.warning(
                "an event that was given up is parked: the dead letters do not take it",
                subscription=subscription.id, event_type=found.place[0], partition=found.place[1], offset=found.offset,
                error=str(error),
            )  # fmt: skip
            return False
        heads = lock_heads(tx, [prepared])
        if any(each not in heads for each in prepared.partition_ids):
            raise DatabaseUnavailable(reason=f"{DEAD_LETTERS} was dropped meanwhile", retry_after=1)
        append_rows(tx, [prepared], heads, self._clock())
        return True


def _in_vain(attempts: int) -> str:
    return f"it was sent {attempts} times one by one, and never committed"


def _next_event(tx: Tx, subscription_id: str, slot: StoredSlot) -> Found | None:
    """Return the first event that is shown from where a partition stands, as far as events are sent one by one."""
    feed = tx.registry.find(slot.place[0])
    assert feed is not None, "an event type does not go while it is read"
    partition_id = feed.partition_ids[slot.place[1]]
    head = tx.log.find_heads([partition_id])[partition_id]
    parked = {
        each.key: each.id
        for each in tx.subscriptions.list_parked(subscription_id, counted=False)
        if each.place == slot.place
    }
    passed: dict[int, list[int]] = {}
    offset = max(slot.offset, head.floor)
    stop = min(max(slot.single_until, slot.offset + CHUNK_ROWS), head.next_offset)
    while offset < stop:
        columns = tx.log.read_columns(partition_id, offset, stop)
        rows = Rows(ColumnChunk(ReadRange(slot.place[1], partition_id, offset, columns.stop), columns))
        for at, (key, kind, _, data) in enumerate(rows.tuples(), offset):
            text = None if key is None else key.decode()
            if kind == DELETION.encode():
                continue
            if text is None or text not in parked:
                return Found(feed, slot.place, at, text, data, passed)
            passed.setdefault(parked[text], []).append(at)
        offset = columns.stop
    return None
