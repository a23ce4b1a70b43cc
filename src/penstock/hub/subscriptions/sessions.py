"""Admits streams to a subscription, ends them, and assigns its partitions to them.

`Look` is a snapshot of a subscription: its streams, and the partitions that each one owns. A stream that ends tells
its consumer the reason. docs/decisions/leases.md explains how long a stream keeps its partitions.

Invariants:
    A change locks the subscription first: of two streams that race for the last slot exactly one gets it.
    Times that several hubs compare are the database's.
    A stream that has ended keeps what it may still commit until its commit timeout is over.
    The streams of a hub that was not seen for `LEASE_SECONDS` have ended, and keep only what nobody else wants.
"""

import secrets
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from penstock.core.subscriptions import assignment
from penstock.core.subscriptions.assignment import FeedPartition, assign_slots, find_conflicts
from penstock.errors import (
    DatabaseUnavailable,
    InvalidSubscription,
    NoFreeSlots,
    OutcomeUnknown,
    PartitionsTaken,
    ResetUnderWay,
    StreamNotFound,
)
from penstock.hub.subscriptions.parking import Retries
from penstock.hub.subscriptions.slots import begin, existing
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import StoredParkedKey, StoredSession, StoredSlot, StoredSubscription

BLOCKED: Final = "Consumption is blocked"
DELETED: Final = "The subscription was deleted"
GIVEN_BACK: Final = "The consumer has given its partitions back"
GROWN: Final = "The subscription has other partitions by now: begin another stream"
RESETTING: Final = "Resetting subscription cursors"
STOPPING: Final = "The hub is stopping: go on with another one"
TIME_OVER: Final = "The stream was counted as gone: begin another one"


LEASE_SECONDS: Final = 10.0
"""A hub that was not seen for so long is gone."""
LEASE_US: Final = int(LEASE_SECONDS * 1_000_000)


class Look(NamedTuple):
    """A subscription at one look."""

    subscription: StoredSubscription
    slots: Sequence[StoredSlot]
    """None where it has not begun."""
    sessions: Sequence[StoredSession]
    parked: Sequence[StoredParkedKey]
    now: int
    """By the database's clock; 0 where nothing depends on it."""

    @property
    def present(self) -> Mapping[str, StoredSession]:
        """The streams, by their ids, but for those whose time is over: others may have what is still called theirs.

        For looks that tell the time.
        """
        now = self.now
        return {
            each.id: each
            for each in self.sessions
            if is_live(each, now) or has_lapsed(each, now) or holds(each, self.slots, now)
        }

    @property
    def places(self) -> frozenset[FeedPartition]:
        """All of its partitions."""
        return frozenset(slot.place for slot in self.slots)

    def session(self, id: str) -> StoredSession | None:
        """Return a stream; None: its time is over."""
        return next((each for each in self.sessions if each.id == id), None)

    def ends(self, session_id: str, places: Collection[FeedPartition]) -> str | None:
        """Return why a stream cannot go on that has known these *places*; None: it can."""
        if (self.subscription.resetting_until or 0) > self.now:
            return RESETTING
        session = self.session(session_id)
        if session is None:
            return TIME_OVER
        if session.holds_until is not None:
            return GIVEN_BACK
        return GROWN if places != self.places else None


def is_live(session: StoredSession, now: int) -> bool:
    """Tell whether a stream is being sent."""
    return session.holds_until is None and session.seen_at > now - LEASE_US


def holds(session: StoredSession, slots: Collection[StoredSlot], now: int) -> bool:
    """Tell whether a stream that has ended keeps what it has; also while its hub has yet to end it."""
    if session.holds_until is None:
        return False
    return session.holds_until > now or is_being_sent(session, slots, now)


def is_being_sent(session: StoredSession, slots: Collection[StoredSlot], now: int) -> bool:
    """Tell whether a stream that is to end has a hub that has not said so yet."""
    has_more = any(each.owner == session.id and each.sent is None for each in slots)
    return session.holds_until is not None and session.seen_at > now - LEASE_US and has_more


def has_lapsed(session: StoredSession, now: int) -> bool:
    """Tell whether the hub of a stream is gone, and its time to commit is not over."""
    return (
        session.holds_until is None and session.seen_at + LEASE_US <= now < session.seen_at + session.commit_ms * 1000
    )


def may_commit(session: StoredSession, now: int) -> bool:
    """Tell whether a stream may commit what it was sent: of a hub that is gone, what nobody else has by now."""
    return session.holds_until is None or session.holds_until > now


SECRET_BYTES: Final = 16


class Opened(NamedTuple):
    """A stream that has begun."""

    session: StoredSession
    subscription: StoredSubscription
    slots: Sequence[StoredSlot]
    """Its partitions, as they were before they were shared out anew."""


class Ended(NamedTuple):
    """How far a stream was sent that has ended, by partition, and how long it may still commit that."""

    sent: Mapping[FeedPartition, int]
    """Of those partitions that it has not committed up to there."""
    hold_us: int
    retried: Collection[int] = ()
    """The ids of parked keys that it was sent again, and has not committed."""
    overdue: Collection[FeedPartition] = ()
    """Partitions that others are to have, and for which that time is over."""
    resent: Collection[FeedPartition] = ()
    """Partitions of whose parked keys it was sent something again that it may still commit."""


class Sessions:
    """The streams of one store's subscriptions, in this hub and in others."""

    def __init__(self, store: Store, retries: Retries, hub_id: str) -> None:
        self._store = store
        self._retries = retries
        self._hub_id = hub_id

    def look(self, id: str, *, counts: bool = False, settled: bool = False) -> Look:
        """Return what a subscription is now; where it *counts*, the time is told, and how many events are parked.

        *settled*: who shares its partitions out at this moment is waited for.

        Raises:
            SubscriptionNotFound: there is none.
            DatabaseUnavailable: it could not be asked.
        """
        with self._reading(settled=settled) as tx:
            subscription = existing(id, tx.subscriptions.find(id, lock=True) if settled else tx.subscriptions.find(id))
            return Look(
                subscription,
                tx.subscriptions.list_slots(id),
                tx.subscriptions.list_sessions(id),
                tx.subscriptions.list_parked(id, counted=counts),
                tx.now() if counts or subscription.resetting_until else 0,
            )

    @contextmanager
    def _reading(self, *, settled: bool) -> Iterator[Tx]:
        try:
            with self._store.write() if settled else self._store.read() as tx:
                yield tx
        except OutcomeUnknown as error:  # Nothing was written.
            raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error

    def glance(self, subscriptions: Sequence[StoredSubscription]) -> Sequence[Look]:
        """Return who has which partition of each: of one that is gone by now, nobody has any."""
        with self._store.read() as tx:
            now = tx.now()
            return [
                Look(each, tx.subscriptions.list_slots(each.id), tx.subscriptions.list_sessions(each.id), (), now)
                for each in subscriptions
            ]

    def open(self, id: str, wants: Collection[FeedPartition], *, batch_limit: int, commit_ms: int) -> Opened:
        """Begin a stream that is sent the partitions that it *wants*, or where that is none its share of the rest.

        Raises:
            SubscriptionNotFound: there is none.
            InvalidSubscription: it wants partitions that the subscription does not have.
            NoFreeSlots, PartitionsTaken: there is no room for it.
            ResetUnderWay: the cursors are being reset.
        """
        with self._store.write() as tx:
            subscription = existing(id, tx.subscriptions.find(id, lock=True))
            now = tx.subscriptions.see_hub(self._hub_id)
            slots = begin(tx, subscription, now)
            places = [slot.place for slot in slots]
            check_places(places, wants)
            if (subscription.resetting_until or 0) > now:
                raise ResetUnderWay(subscription=id)
            live = [each for each in tx.subscriptions.list_sessions(id) if is_live(each, now)]
            session = StoredSession(
                str(uuid.uuid4()), id, self._hub_id, frozenset(wants), batch_limit, commit_ms,
                secrets.token_bytes(SECRET_BYTES), now, 0, None, now,
            )  # fmt: skip
            _check_room(id, places, live, session, wants)
            tx.subscriptions.put_session(session)
            self._rebalance(tx, subscription, now)
            tx.subscriptions.revise(id)
        return Opened(session, subscription, slots)

    def end(self, id: str, session_id: str, ended: Ended) -> None:
        """Note that a stream has ended; its partitions go to others as soon as they may. Harmless when repeated."""
        with self._store.write() as tx:
            subscription = tx.subscriptions.find(id, lock=True)
            if subscription is None:
                return
            now = tx.now()
            own = [slot for slot in tx.subscriptions.list_slots(id) if slot.owner == session_id]
            session = next((each for each in tx.subscriptions.list_sessions(id) if each.id == session_id), None)
            if session is None or (session.holds_until and own and all(slot.sent is not None for slot in own)):
                return  # It was told before.
            left = {slot.place for slot in own if ended.sent.get(slot.place, 0) > slot.offset}
            kept = left.union(ended.resent).difference(ended.overdue) if ended.hold_us > 0 else set()
            tx.subscriptions.mark_parked(ended.retried, retried=False)
            tx.subscriptions.put_slots(
                id,
                [
                    slot._replace(
                        owner=session_id if slot.place in kept else None,
                        sent=max(ended.sent.get(slot.place, 0), slot.offset) if slot.place in kept else None,
                        failed=slot.failed + (slot.place in left),
                    )
                    for slot in own
                ],
            )
            if kept.intersection(slot.place for slot in own):
                tx.subscriptions.put_session(session._replace(holds_until=now + ended.hold_us))
            else:
                tx.subscriptions.delete_sessions([session_id])
            self._rebalance(tx, subscription, now)
            tx.subscriptions.revise(id)

    def release(self, id: str, session_id: str, places: Collection[FeedPartition]) -> None:
        """Let go of partitions of a stream that others are to have, and all of which that it was sent is committed."""
        with self._store.write() as tx:
            subscription = tx.subscriptions.find(id, lock=True)
            if subscription is None:
                return
            slots = tx.subscriptions.list_slots(id)
            sessions = {each.id: each for each in tx.subscriptions.list_sessions(id)}
            self._give(
                tx,
                subscription,
                sessions,
                [
                    (slot, slot.heir if slot.heir in sessions else None)
                    for slot in slots
                    if slot.owner == session_id and slot.heir and slot.place in places
                ],
            )
            tx.subscriptions.revise(id)

    def extend(self, id: str, session_id: str) -> None:
        """Begin anew the time in which a stream has to commit what it was sent.

        Raises:
            SubscriptionNotFound, StreamNotFound: there is no such stream, or its time is over.
        """
        with self._store.write() as tx:
            existing(id, tx.subscriptions.find(id, lock=True))
            now = tx.now()
            session = next((each for each in tx.subscriptions.list_sessions(id) if each.id == session_id), None)
            if session is None or not may_commit(session, now):
                raise StreamNotFound(stream=session_id)
            if session.holds_until is None:
                session = session._replace(extensions=session.extensions + 1)
            else:
                session = session._replace(holds_until=now + session.commit_ms * 1000)
            tx.subscriptions.put_session(session)
            tx.subscriptions.revise(id)

    def give_back(
        self,
        id: str,
        session_id: str,
        keep: Collection[FeedPartition] = (),
        failed: Collection[FeedPartition] | None = None,
    ) -> bool:
        """Let others have what a stream was sent and has not committed, but for *keep*; the stream itself ends.

        It counts as failed where its partition is among *failed*; None: wherever it is. False: the hub that sends the
        stream has yet to end it, ask again.

        Raises:
            SubscriptionNotFound, StreamNotFound: there is no such stream, or it has nothing any more.
            InvalidSubscription: it names partitions that the subscription does not have.
        """
        with self._store.write() as tx:
            subscription = existing(id, tx.subscriptions.find(id, lock=True))
            now = tx.now()
            session = next((each for each in tx.subscriptions.list_sessions(id) if each.id == session_id), None)
            if session is None:
                raise StreamNotFound(stream=session_id)
            slots = tx.subscriptions.list_slots(id)
            check_places([slot.place for slot in slots], [*keep, *(failed or ())])
            own = [slot for slot in slots if slot.owner == session_id]
            tx.subscriptions.revise(id)
            if session.seen_at > now - LEASE_US and (not own or any(slot.sent is None for slot in own)):
                tx.subscriptions.put_session(session._replace(holds_until=now + session.commit_ms * 1000))
                return False
            free = [slot for slot in own if slot.place not in keep]
            tx.subscriptions.put_slots(id, [_given_back(slot, failed) for slot in free])
            if len(free) == len(own):
                tx.subscriptions.delete_sessions([session_id])
            self._rebalance(tx, subscription, now)
        return True

    def set_aside(self, id: str, session_id: str, offsets: Mapping[int, Sequence[int]]) -> Collection[int]:
        """Let events wait behind others of their keys, by the ids of these; return those ids that still wait.

        The events of the others are to be sent. Nothing is let wait for a stream that has lost the partition by now:
        whoever has it may have sent these events since.
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

    def parked_events(
        self, id: str, parked: StoredParkedKey, below: int, limit: int
    ) -> tuple[Sequence[int], Sequence[bytes]]:
        """Return the offsets and the data of the first events of a parked key *below* an offset, if still in the log.

        Where none of them is, the key waits no longer.
        """
        name, number = parked.place
        after = parked.first - 1
        with self._store.read() as tx:
            partition_id = tx.registry.get(name).partition_ids[number]
            while offsets := [
                at for at in tx.subscriptions.list_parked_offsets(parked.id, after=after, limit=limit) if at < below
            ]:
                columns = {offset: tx.log.read_columns(partition_id, offset, offset + 1) for offset in offsets}
                found = {offset: each.data for offset, each in columns.items() if each.rows}
                if found:
                    return list(found), list(found.values())
                after = offsets[-1]
        with self._store.write() as tx:
            tx.subscriptions.find(id, lock=True)
            tx.subscriptions.acknowledge_parked({parked.id: after})
            tx.subscriptions.revise(id)
        return (), ()

    def sweep(self, ids: Collection[str]) -> None:
        """Share out anew the partitions of those of these subscriptions that have streams whose time is over.

        Raises:
            PenstockError: it could not be done for one of them; for all others it was.
        """
        with self._store.read() as tx:
            found = tx.subscriptions.list_abandoned(ids, lease=LEASE_US)
        failed: Exception | None = None
        for each in found:
            try:
                with self._store.write() as tx:
                    subscription = tx.subscriptions.find(each, lock=True)
                    if subscription is not None and self._rebalance(tx, subscription, tx.now()):
                        tx.subscriptions.revise(each)
            except Exception as error:  # noqa: BLE001 - whatever it is, it concerns that one alone
                failed = error
        if failed is not None:
            raise failed

    def settle(self, tx: Tx, subscription: StoredSubscription, now: int) -> None:
        """Share the partitions of a locked subscription out anew, inside a transaction of somebody else."""
        self._rebalance(tx, subscription, now)

    def _rebalance(self, tx: Tx, subscription: StoredSubscription, now: int) -> bool:
        """Share the partitions out among the streams that there are, and forget those whose time is over.

        Tell whether that has changed anything.
        """
        sessions = {each.id: each for each in tx.subscriptions.list_sessions(subscription.id)}
        live = [assignment.StreamSession(each.id, each.wants) for each in sessions.values() if is_live(each, now)]
        slots = tx.subscriptions.list_slots(subscription.id)
        holding = {each.id for each in sessions.values() if holds(each, slots, now)}
        lapsed = {each.id for each in sessions.values() if has_lapsed(each, now)}
        shared = assign_slots(
            [assignment.PartitionSlot(slot.place, slot.owner, slot.heir) for slot in slots],
            live,
            ending=holding,
            expired=lapsed,
        )
        given, heirs = [], []
        for slot, new in zip(slots, shared, strict=True):
            if new.owner != slot.owner:
                given.append((slot, new.owner))
            elif new.heir != slot.heir:
                heirs.append(slot._replace(heir=new.heir))
        tx.subscriptions.put_slots(subscription.id, heirs)
        self._give(tx, subscription, sessions, given)
        owners = {new.owner for new in shared}
        losing = {slot.owner for slot, _ in given}
        for each in lapsed & losing & owners:  # Were it to go on, it could not tell what it lost.
            lost = sessions[each]
            tx.subscriptions.put_session(lost._replace(holds_until=lost.seen_at + lost.commit_ms * 1000))
        gone = [each for each in sessions if each not in owners and not is_live(sessions[each], now)]
        tx.subscriptions.delete_sessions(gone)
        return bool(given or heirs or gone)

    def _give(
        self,
        tx: Tx,
        subscription: StoredSubscription,
        sessions: Mapping[str, StoredSession],
        given: Sequence[tuple[StoredSlot, str | None]],
    ) -> None:
        """Let partitions be those of others, and give up events that were tried often enough."""
        found = []
        for slot, owner in given:
            new = slot._replace(owner=owner, heir=None, sent=None)
            found.append(self._retries.begun(tx, subscription, new, sessions[owner]) if owner else new)
        tx.subscriptions.put_slots(subscription.id, found)


def check_places(places: Collection[FeedPartition], wanted: Collection[FeedPartition]) -> None:
    """Return if all that are *wanted* are among the *places* of a subscription.

    Raises:
        InvalidSubscription: some are not; it names them in the order of *wanted*.
    """
    own = set(places)
    if wrong := [each for each in dict.fromkeys(wanted) if each not in own]:
        detail = f"the subscription does not read {_named(wrong)}"
        reason = "are not all of this subscription"
        raise InvalidSubscription(detail, field="partitions", reason=reason, partitions=_shown(wrong))


def _check_room(
    id: str,
    places: Sequence[FeedPartition],
    live: Sequence[StoredSession],
    session: StoredSession,
    wants: Collection[FeedPartition],
) -> None:
    others = [assignment.StreamSession(each.id, each.wants) for each in live]
    taken = find_conflicts(places, others, assignment.StreamSession(session.id, session.wants))
    if taken is None:
        return
    if not session.wants:
        raise NoFreeSlots(subscription=id, slots=len(places))
    found = [each for each in wants if each in taken]
    detail = f"another stream of subscription {id} has asked for {_named(found)}"
    raise PartitionsTaken(detail, subscription=id, partitions=_shown(found))


def _named(places: Sequence[FeedPartition]) -> str:
    return ", ".join(f"partition {number} of {name!r}" for name, number in places)


def _shown(places: Sequence[FeedPartition]) -> list[dict[str, str]]:
    return [{"event_type": name, "partition": str(number)} for name, number in places]


def _given_back(slot: StoredSlot, failed: Collection[FeedPartition] | None) -> StoredSlot:
    """Return a partition that nobody has; what its stream's end has counted as a failure is taken back unless it is."""
    has_failed = failed is None or slot.place in failed
    counted = slot.sent is not None and slot.sent > slot.offset
    failures = max(0, slot.failed - 1) if counted and not has_failed else slot.failed
    return slot._replace(owner=None, sent=None, failed=failures)
