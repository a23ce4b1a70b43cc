"""Gives up events that a consumer cannot process, by the policy of their subscription.

A subscription says how often an event may be sent. After that its policy applies: skip the event, publish it to the
dead letters, or park its key. docs/decisions/parked-keys.md gives the reasons.

Invariants:
    The hub gives an event up in the transaction that assigns its partition to the next session. So a crash changes
    nothing: the event is given up once.
"""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec
import structlog

from penstock.core.registry.definition import PENSTOCK, Limits
from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.assignment import FeedPartition, PoisonOffset
from penstock.core.subscriptions.definition import UnprocessablePolicy, read_unprocessable_policy, start_partition
from penstock.errors import Invalid, TooLarge
from penstock.hub.background import Clock
from penstock.hub.log.read import CHUNK_ROWS, ChunkRows, ColumnChunk, ReadRange, find_offsets, make_changing_error
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS, DeadLetter, publish_dead_letter
from penstock.storage.cold.loading import NotLoadedError
from penstock.storage.groups import PositionChange
from penstock.storage.log.events import DELETION
from penstock.storage.store import Tx
from penstock.storage.subscriptions import StoredSession, StoredSlot, StoredSubscription

SKIPPED: Final = "skipped"
_log: Final = structlog.get_logger("penstock.poison_events")


class PoisonEvent(msgspec.Struct):
    """An event that was sent too often."""

    feed: StoredFeed
    place: FeedPartition
    offset: int
    key: str | None
    data: bytes
    passed: dict[int, list[int]]
    """The offsets of events before it whose keys are parked, by the ids of these keys."""


class PoisonEvents:
    """Applies the policies of one store's subscriptions to poison events."""

    def __init__(self, clock: Clock, limits: Limits = PENSTOCK) -> None:
        self._clock = clock
        self._limits = limits

    def start_slot(
        self, tx: Tx, subscription: StoredSubscription, slot: StoredSlot, session: StoredSession
    ) -> StoredSlot:
        """Return a partition as the stream of its new owner starts it, after giving up an event sent too often."""
        policy = read_unprocessable_policy(subscription.definition)
        if policy is None:
            return slot._replace(failed=0, single_until=0)
        start = start_partition(
            slot.failed, slot.offset, slot.single_until, limit=policy.send_count, batch_limit=session.batch_limit
        )
        slot = slot._replace(failed=start.failed, single_until=start.single_until)
        return self._give_up_next(tx, subscription, slot, policy) if start.gives_up else slot

    def park(self, tx: Tx, id: str, slots: Collection[StoredSlot], events: Iterable[PoisonOffset]) -> None:
        """Park the keys of *events* that lie in *slots*, the partitions of one session, behind their positions.

        Other events are left alone: they are committed or removed, or another session has them.

        Raises:
            DatabaseUnavailable: an event has to be read from the cold tier first; call again.
        """
        own = {slot.place: slot for slot in slots}
        now = self._clock()
        for each in events:
            slot = own.get(each.place)
            if slot is None or slot.epoch != each.epoch or each.offset < slot.offset:
                continue
            found, key = _read_key(tx, each)
            if found:
                tx.subscriptions.park(id, each.place, key, each.offset, attempts=each.attempts, at=now)

    def _give_up_next(
        self, tx: Tx, subscription: StoredSubscription, slot: StoredSlot, policy: UnprocessablePolicy
    ) -> StoredSlot:
        """Give up the next event of a partition, and return the partition with its position behind the event."""
        try:
            event = _find_next(tx, subscription.id, slot)
        except NotLoadedError as missing:  # It is sent once more: no transaction waits for the cold tier.
            missing.load_later()
            return slot
        if event is None:
            return slot
        tx.subscriptions.add_parked(event.passed)
        changes: list[PositionChange] = []
        if policy.policy == "PARK_KEY":
            self._park(tx, subscription, event, event.key, policy)
        elif policy.policy == "DEAD_LETTER_QUEUE" and not self._publish(tx, subscription, event, policy):
            self._park(tx, subscription, event, None, policy)
        else:
            changes.append(self._record_skip(event, policy))
        slot = slot._replace(offset=event.offset + 1)
        tx.groups.put(subscription.id, [slot.position], self._clock(), changes)
        return slot

    def _park(
        self, tx: Tx, subscription: StoredSubscription, event: PoisonEvent, key: str | None, policy: UnprocessablePolicy
    ) -> None:
        attempts, now = policy.send_count, self._clock()
        tx.subscriptions.park(subscription.id, event.place, key, event.offset, attempts=attempts, at=now)

    def _record_skip(self, event: PoisonEvent, policy: UnprocessablePolicy) -> PositionChange:
        """Return the entry of the subscription's history for a skipped event."""
        (name, number), offset = event.place, event.offset
        where = f"; {DEAD_LETTERS} has it" if policy.policy == "DEAD_LETTER_QUEUE" else ""
        reason = _describe_failure(policy.send_count) + where
        return PositionChange(name, "", number, SKIPPED, event.feed.epoch, offset, offset + 1, reason, self._clock())

    def _publish(
        self, tx: Tx, subscription: StoredSubscription, event: PoisonEvent, policy: UnprocessablePolicy
    ) -> bool:
        """Publish an event to the dead letters; return False if they refuse it.

        The dead letter may be too large or too deep, or its event type may have got another schema.
        """
        (name, number), reason = event.place, _describe_failure(policy.send_count)
        letter = DeadLetter(
            subscription.id, name, number, event.feed.epoch, event.offset, reason, event.data, event.key
        )
        try:
            publish_dead_letter(tx, letter, self._limits, self._clock)
        except (Invalid, TooLarge) as error:
            _log.warning(
                "an event that was given up is parked: the dead letters do not take it",
                subscription=subscription.id, event_type=name, partition=number, offset=event.offset, error=str(error),
            )  # fmt: skip
            return False
        return True


def _describe_failure(attempts: int) -> str:
    return f"it was sent {attempts} times one by one, and never committed"


def _read_key(tx: Tx, event: PoisonOffset) -> tuple[bool, str | None]:
    """Return whether an event is there, and its key."""
    (name, number), offset = event.place, event.offset
    partition_id = tx.registry.get(name).partition_ids[number]
    if offset >= tx.log.find_heads([partition_id])[partition_id].next_offset:
        return False, None
    try:
        columns = tx.log.read_columns(partition_id, offset, offset + 1)
    except NotLoadedError as missing:
        missing.load_later()
        raise make_changing_error() from missing
    if not columns.rows:
        return False, None
    [key] = ChunkRows(ColumnChunk(ReadRange(number, partition_id, offset, offset + 1), columns, [offset])).keys
    return True, None if key is None else key.decode()


def _find_next(tx: Tx, subscription_id: str, slot: StoredSlot) -> PoisonEvent | None:
    """Return the next event to be sent of a partition, within the offsets whose events are sent one by one."""
    feed = tx.registry.find(slot.place[0])
    assert feed is not None, "an event type that a subscription reads cannot be deleted"
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
        found = ReadRange(slot.place[1], partition_id, offset, columns.stop)
        if (offsets := find_offsets(tx, feed, found, columns.rows)) is None:
            raise make_changing_error()
        rows = ChunkRows(ColumnChunk(found, columns, offsets))
        for at, (key, kind, _, data) in zip(offsets, rows.tuples(), strict=True):
            text = None if key is None else key.decode()
            if kind == DELETION.encode():
                continue
            if text is None or text not in parked:
                return PoisonEvent(feed, slot.place, at, text, data, passed)
            passed.setdefault(parked[text], []).append(at)
        offset = columns.stop
    return None
