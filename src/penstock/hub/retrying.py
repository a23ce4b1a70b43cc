"""Gives up events that a consumer could not process as often as its subscription says (digest of Nakadi's, 5.11)."""

import uuid
from typing import Any, Final

import msgspec
import structlog

from penstock.core.events.event import NewEvent
from penstock.core.registry.definition import PENSTOCK, Limits
from penstock.core.registry.event_type import Feed
from penstock.core.subscriptions.assignment import Place
from penstock.core.subscriptions.definition import Retrying, retrying_of, start
from penstock.errors import DatabaseUnavailable, Invalid, TooLarge
from penstock.hub.append import append_rows, lock_heads
from penstock.hub.clock import Clock, rfc3339
from penstock.hub.dead_letters import DEAD_LETTERS, locked_dead_letters
from penstock.hub.parking import SKIPPED
from penstock.hub.publish import Handed, prepare
from penstock.hub.read import CHUNK_ROWS, ColumnChunk, Range
from penstock.hub.rows import Rows
from penstock.storage.groups import Intervention
from penstock.storage.store import DELETION, Tx
from penstock.storage.subscriptions import Session, Slot, Subscription

_log: Final = structlog.get_logger("penstock.retrying")


class Found(msgspec.Struct):
    """An event that was tried often enough."""

    feed: Feed
    place: Place
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

    def begun(self, tx: Tx, subscription: Subscription, slot: Slot, session: Session) -> Slot:
        """Return what a partition is for a stream that begins with it; an event that was tried enough is given up."""
        retrying = retrying_of(subscription.definition)
        if retrying is None:
            return slot._replace(failed=0, single_until=0)
        begins = start(
            slot.failed, slot.offset, slot.single_until, limit=retrying.send_count, batch_limit=session.batch_limit
        )
        slot = slot._replace(failed=begins.failed, single_until=begins.single_until)
        return self._without_next(tx, subscription, slot, retrying) if begins.gives_up else slot

    def _without_next(self, tx: Tx, subscription: Subscription, slot: Slot, retrying: Retrying) -> Slot:
        """Give up the next event of a partition, which waits or lies in the log from now on, and go on behind it."""
        found = _next_event(tx, subscription.id, slot)
        if found is None:
            return slot
        tx.parked.add(found.passed)
        given: dict[str, Any] = {"attempts": retrying.send_count, "at": self._clock()}
        if retrying.policy == "PARK_KEY":
            tx.parked.park(subscription.id, slot.place, found.key, found.offset, **given)
        elif retrying.policy == "DEAD_LETTER_QUEUE" and not self._keep(tx, subscription, found, retrying.send_count):
            tx.parked.park(subscription.id, slot.place, None, found.offset, **given)
        else:
            self._record(tx, subscription.id, found, retrying)
        tx.subscriptions.move(subscription.id, {slot.place: found.offset + 1}, self._clock())
        return slot._replace(offset=found.offset + 1)

    def _record(self, tx: Tx, id: str, found: Found, retrying: Retrying) -> None:
        """Have the subscription's history say what was skipped, and why."""
        (name, number), offset = found.place, found.offset
        where = f"; {DEAD_LETTERS} has it" if retrying.policy == "DEAD_LETTER_QUEUE" else ""
        reason = _in_vain(retrying.send_count) + where
        skipped = Intervention(name, "", number, SKIPPED, found.feed.epoch, offset, offset + 1, reason, self._clock())
        tx.groups.intervene(id, [skipped])

    def _keep(self, tx: Tx, subscription: Subscription, found: Found, attempts: int) -> bool:
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
            prepared = prepare(feed, Handed([NewEvent.of(msgspec.json.encode(event))]), self._clock())
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


def _next_event(tx: Tx, subscription_id: str, slot: Slot) -> Found | None:
    """Return the first event that is shown from where a partition stands, as far as events are sent one by one."""
    feed = tx.feeds.find(slot.place[0])
    assert feed is not None, "an event type does not go while it is read"
    partition_id = feed.partition_ids[slot.place[1]]
    head = tx.events.heads([partition_id])[partition_id]
    parked = {each.key: each.id for each in tx.parked.list(subscription_id, counted=False) if each.place == slot.place}
    passed: dict[int, list[int]] = {}
    offset = max(slot.offset, head.floor)
    stop = min(max(slot.single_until, slot.offset + CHUNK_ROWS), head.next_offset)
    while offset < stop:
        columns = tx.events.columns(partition_id, offset, stop)
        rows = Rows(ColumnChunk(Range(slot.place[1], partition_id, offset, columns.stop), columns))
        for at, (key, kind, _, data) in enumerate(rows.tuples(), offset):
            text = None if key is None else key.decode()
            if kind == DELETION.encode():
                continue
            if text is None or text not in parked:
                return Found(feed, slot.place, at, text, data, passed)
            passed.setdefault(parked[text], []).append(at)
        offset = columns.stop
    return None
