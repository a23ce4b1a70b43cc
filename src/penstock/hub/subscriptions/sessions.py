"""Opens and ends the sessions of a subscription, and assigns its partitions to them.

A session is a stream as the database knows it. `SubscriptionSnapshot` shows the sessions of a subscription, and the
partitions that each one owns. docs/decisions/leases.md explains how long a session keeps its partitions.

Invariants:
    A change locks the subscription first: of two sessions that race for the last partition exactly one gets it.
    Times that several hubs compare are the database's.
    A session that has ended keeps its uncommitted partitions until its commit timeout is over.
    The lease of a hub expires `LEASE_SECONDS` after the database last saw it. Its sessions have ended then, and keep
    only partitions that no other session wants.
"""

import secrets
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from penstock.core.subscriptions import assignment
from penstock.core.subscriptions.assignment import FeedPartition, PoisonOffset, assign_slots, find_conflicts
from penstock.errors import (
    DatabaseUnavailable,
    InvalidSubscription,
    OutcomeUnknown,
    StreamNotFound,
    SubscriptionBusy,
)
from penstock.hub.subscriptions.poison_events import PoisonEvents
from penstock.hub.subscriptions.slots import begin_subscription, get_subscription
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import StoredParkedKey, StoredSession, StoredSlot, StoredSubscription

BLOCKED: Final = "Consumption is blocked"
DELETED: Final = "The subscription was deleted"
RELEASED: Final = "The consumer has given its partitions back"
REPARTITIONED: Final = "The subscription has other partitions by now: begin another stream"
RESETTING: Final = "Resetting subscription cursors"
STOPPING: Final = "The hub is stopping: go on with another one"
LEASE_EXPIRED: Final = "The stream was counted as gone: begin another one"

LEASE_SECONDS: Final = 10.0
"""The lease of a hub expires so long after the database last saw it."""
LEASE_US: Final = int(LEASE_SECONDS * 1_000_000)


class SubscriptionSnapshot(NamedTuple):
    """Snapshot of a subscription: its sessions, the partitions that each one owns, and its parked keys."""

    subscription: StoredSubscription
    slots: Sequence[StoredSlot]
    """Its partitions; none before its first stream."""
    sessions: Sequence[StoredSession]
    parked: Sequence[StoredParkedKey]
    now: int
    """The database's time of the snapshot; 0 where it was not asked for it."""

    @property
    def current_sessions(self) -> Mapping[str, StoredSession]:
        """The sessions by their ids, without expired ones: other sessions may take the partitions of these.

        Only for snapshots that have a time.
        """
        now = self.now
        return {
            each.id: each
            for each in self.sessions
            if is_live(each, now) or has_lapsed(each, now) or holds_partitions(each, self.slots, now)
        }

    @property
    def places(self) -> frozenset[FeedPartition]:
        """All of its partitions."""
        return frozenset(slot.place for slot in self.slots)

    def find_session(self, id: str) -> StoredSession | None:
        """Return a session, or None if it no longer exists."""
        return next((each for each in self.sessions if each.id == id), None)

    def find_end_reason(self, session_id: str, places: Collection[FeedPartition]) -> str | None:
        """Return why a stream has to end that knows these partitions of the subscription; None: it can go on."""
        if (self.subscription.resetting_until or 0) > self.now:
            return RESETTING
        session = self.find_session(session_id)
        if session is None:
            return LEASE_EXPIRED
        if session.holds_until is not None:
            return RELEASED
        return REPARTITIONED if places != self.places else None


def is_live(session: StoredSession, now: int) -> bool:
    """Return whether a session is open and the lease of its hub is valid."""
    return session.holds_until is None and session.seen_at > now - LEASE_US


def holds_partitions(session: StoredSession, slots: Collection[StoredSlot], now: int) -> bool:
    """Return whether a session that has ended, or is to end, keeps its partitions."""
    if session.holds_until is None:
        return False
    return session.holds_until > now or is_ending(session, slots, now)


def is_ending(session: StoredSession, slots: Collection[StoredSlot], now: int) -> bool:
    """Return whether a session is to end, and its hub has not recorded yet how much its stream has sent."""
    has_more = any(each.owner == session.id and each.sent is None for each in slots)
    return session.holds_until is not None and session.seen_at > now - LEASE_US and has_more


def has_lapsed(session: StoredSession, now: int) -> bool:
    """Return whether the lease of a session's hub has expired, but not the session's commit timeout."""
    return (
        session.holds_until is None and session.seen_at + LEASE_US <= now < session.seen_at + session.commit_ms * 1000
    )


def can_commit(session: StoredSession, now: int) -> bool:
    """Return whether a session may commit; if its hub's lease has expired, only partitions that it still owns."""
    return session.holds_until is None or session.holds_until > now


SECRET_BYTES: Final = 16


class OpenedSession(NamedTuple):
    """A session that was opened."""

    session: StoredSession
    subscription: StoredSubscription
    slots: Sequence[StoredSlot]
    """The partitions of the subscription, before the rebalance."""


class SessionEnd(NamedTuple):
    """The progress of a stream at its end, and for how long its session may still commit."""

    sent: Mapping[FeedPartition, int]
    """The offset after the last event sent, for each partition that is not committed up to there."""
    hold_us: int
    retried: Collection[int] = ()
    """The ids of parked keys whose events were resent, and failed."""
    overdue: Collection[FeedPartition] = ()
    """Withdrawn partitions whose commit timeout is over."""
    resent: Collection[FeedPartition] = ()
    """Partitions whose resent parked events the session may still commit."""


class Sessions:
    """The sessions of one store's subscriptions, of this hub and of others. Safe to use from many threads."""

    def __init__(self, store: Store, poison_events: PoisonEvents, hub_id: str) -> None:
        self._store = store
        self._poison_events = poison_events
        self._hub_id = hub_id

    def snapshot(self, id: str, *, counts: bool = False, is_locked: bool = False) -> SubscriptionSnapshot:
        """Return a snapshot of a subscription; with *counts*, it has a time and the numbers of parked events.

        If *is_locked*, the snapshot is taken under the subscription's lock, after any rebalance under way.

        Raises:
            SubscriptionNotFound: there is no such subscription.
            DatabaseUnavailable: the database could not be reached.
        """
        with self._begin(is_locked=is_locked) as tx:
            subscription = get_subscription(tx, id, lock=is_locked)
            return SubscriptionSnapshot(
                subscription,
                tx.subscriptions.list_slots(id),
                tx.subscriptions.list_sessions(id),
                tx.subscriptions.list_parked(id, counted=counts),
                tx.now() if counts or subscription.resetting_until else 0,
            )

    @contextmanager
    def _begin(self, *, is_locked: bool) -> Iterator[Tx]:
        try:
            with self._store.write() if is_locked else self._store.read() as tx:
                yield tx
        except OutcomeUnknown as error:  # Nothing was written.
            raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error

    def snapshot_assignments(self, subscriptions: Sequence[StoredSubscription]) -> Sequence[SubscriptionSnapshot]:
        """Return a snapshot of each subscription without parked keys; one that was deleted has no partitions."""
        with self._store.read() as tx:
            now = tx.now()
            return [
                SubscriptionSnapshot(
                    each, tx.subscriptions.list_slots(each.id), tx.subscriptions.list_sessions(each.id), (), now
                )
                for each in subscriptions
            ]

    def open(self, id: str, wants: Collection[FeedPartition], *, batch_limit: int, commit_ms: int) -> OpenedSession:
        """Open a session that gets the partitions that it *wants*, or without any its share of the rest.

        Raises:
            SubscriptionNotFound: there is no such subscription.
            InvalidSubscription: the subscription does not have partitions that the session wants.
            SubscriptionBusy: every partition has a session.
            SubscriptionBusy: another session has asked for the same partitions.
            SubscriptionBusy: the subscription's cursors are being reset.
        """
        with self._store.write() as tx:
            subscription = get_subscription(tx, id, lock=True)
            now = tx.subscriptions.see_hub(self._hub_id)
            slots = begin_subscription(tx, subscription, now)
            places = [slot.place for slot in slots]
            check_partitions(places, wants)
            if (subscription.resetting_until or 0) > now:
                raise SubscriptionBusy.of("reset-under-way", subscription=id)
            live = [each for each in tx.subscriptions.list_sessions(id) if is_live(each, now)]
            session = StoredSession(
                str(uuid.uuid4()), id, self._hub_id, frozenset(wants), batch_limit, commit_ms,
                secrets.token_bytes(SECRET_BYTES), now, 0, None, now,
            )  # fmt: skip
            _check_conflicts(id, places, live, session, wants)
            tx.subscriptions.put_session(session)
            self.rebalance(tx, subscription, now)
            tx.subscriptions.revise(id)
        return OpenedSession(session, subscription, slots)

    def end(self, id: str, session_id: str, end: SessionEnd) -> None:
        """End a session; other sessions get its partitions, uncommitted ones after its commit timeout.

        Harmless when repeated.
        """
        with self._store.write() as tx:
            subscription = tx.subscriptions.find(id, lock=True)
            if subscription is None:
                return
            now = tx.now()
            own = [slot for slot in tx.subscriptions.list_slots(id) if slot.owner == session_id]
            session = _find_session(tx, id, session_id)
            if session is None or (session.holds_until and own and all(slot.sent is not None for slot in own)):
                return  # The session has ended before.
            left = {slot.place for slot in own if end.sent.get(slot.place, 0) > slot.offset}
            kept = left.union(end.resent).difference(end.overdue) if end.hold_us > 0 else set()
            tx.subscriptions.mark_parked(end.retried, retried=False)
            tx.subscriptions.put_slots(
                id,
                [
                    slot._replace(
                        owner=session_id if slot.place in kept else None,
                        sent=max(end.sent.get(slot.place, 0), slot.offset) if slot.place in kept else None,
                        failed=slot.failed + (slot.place in left),
                    )
                    for slot in own
                ],
            )
            if kept.intersection(slot.place for slot in own):
                tx.subscriptions.put_session(session._replace(holds_until=now + end.hold_us))
            else:
                tx.subscriptions.delete_sessions([session_id])
            self.rebalance(tx, subscription, now)
            tx.subscriptions.revise(id)

    def hand_over(self, id: str, session_id: str, places: Collection[FeedPartition]) -> None:
        """Hand over partitions of a session, which are committed in full, to their successors."""
        with self._store.write() as tx:
            subscription = tx.subscriptions.find(id, lock=True)
            if subscription is None:
                return
            slots = tx.subscriptions.list_slots(id)
            sessions = {each.id: each for each in tx.subscriptions.list_sessions(id)}
            self._assign(
                tx,
                subscription,
                sessions,
                [
                    (slot, slot.successor if slot.successor in sessions else None)
                    for slot in slots
                    if slot.owner == session_id and slot.successor and slot.place in places
                ],
            )
            tx.subscriptions.revise(id)

    def extend(self, id: str, session_id: str) -> None:
        """Restart the commit timeout of a session.

        Raises:
            SubscriptionNotFound, StreamNotFound: there is no such session, or its commit timeout is over.
        """
        with self._store.write() as tx:
            get_subscription(tx, id, lock=True)
            now = tx.now()
            session = _find_session(tx, id, session_id)
            if session is None or not can_commit(session, now):
                raise StreamNotFound(stream=session_id)
            if session.holds_until is None:
                session = session._replace(extensions=session.extensions + 1)
            else:
                session = session._replace(holds_until=now + session.commit_ms * 1000)
            tx.subscriptions.put_session(session)
            tx.subscriptions.revise(id)

    def release(
        self,
        id: str,
        session_id: str,
        keep: Collection[FeedPartition] = (),
        failed: Collection[FeedPartition] | None = None,
        parked: Collection[PoisonOffset] = (),
    ) -> bool:
        """End a session, and release its uncommitted partitions to others, except those to *keep*.

        Releasing counts as a failure of the partitions *failed*; None: of all. The keys of the events *parked* are
        parked in the same transaction. Return False if the session's hub has yet to end the stream: call again.

        Raises:
            SubscriptionNotFound, StreamNotFound: there is no such session, or it no longer owns partitions.
            InvalidSubscription: the subscription does not have those partitions.
            DatabaseUnavailable: an event that is to be parked has to be read from the cold tier first. Nothing has
                changed; call again.
        """
        with self._store.write() as tx:
            subscription = get_subscription(tx, id, lock=True)
            now = tx.now()
            session = _find_session(tx, id, session_id)
            if session is None:
                raise StreamNotFound(stream=session_id)
            slots = tx.subscriptions.list_slots(id)
            poisoned = [each.place for each in parked]
            check_partitions([slot.place for slot in slots], [*keep, *(failed or ()), *poisoned])
            own = [slot for slot in slots if slot.owner == session_id]
            tx.subscriptions.revise(id)
            if session.seen_at > now - LEASE_US and (not own or any(slot.sent is None for slot in own)):
                tx.subscriptions.put_session(session._replace(holds_until=now + session.commit_ms * 1000))
                return False
            self._poison_events.park(tx, id, own, parked)
            if failed is not None:
                failed = set(failed).difference(poisoned)
            free = [slot for slot in own if slot.place not in keep]
            tx.subscriptions.put_slots(id, [_release_slot(slot, failed) for slot in free])
            if len(free) == len(own):
                tx.subscriptions.delete_sessions([session_id])
            self.rebalance(tx, subscription, now)
        return True

    def sweep(self, ids: Collection[str]) -> None:
        """Reassign the partitions of expired sessions of these subscriptions.

        Raises:
            PenstockError: sweeping one subscription failed; all others were swept.
        """
        with self._store.read() as tx:
            found = tx.subscriptions.list_abandoned(ids, lease_us=LEASE_US)
        failed: Exception | None = None
        for each in found:
            try:
                with self._store.write() as tx:
                    subscription = tx.subscriptions.find(each, lock=True)
                    if subscription is not None and self.rebalance(tx, subscription, tx.now()):
                        tx.subscriptions.revise(each)
            except Exception as error:  # noqa: BLE001 - any error concerns one subscription alone
                failed = error
        if failed is not None:
            raise failed

    def rebalance(self, tx: Tx, subscription: StoredSubscription, now: int) -> bool:
        """Assign the partitions of a locked subscription to its sessions, and delete expired ones.

        Return whether that has changed anything.
        """
        sessions = {each.id: each for each in tx.subscriptions.list_sessions(subscription.id)}
        live = [assignment.StreamSession(each.id, each.wants) for each in sessions.values() if is_live(each, now)]
        slots = tx.subscriptions.list_slots(subscription.id)
        holding = {each.id for each in sessions.values() if holds_partitions(each, slots, now)}
        lapsed = {each.id for each in sessions.values() if has_lapsed(each, now)}
        shared = assign_slots(
            [assignment.PartitionSlot(slot.place, slot.owner, slot.successor) for slot in slots],
            live,
            ending=holding,
            expired=lapsed,
        )
        reassigned, promised = [], []
        for slot, new in zip(slots, shared, strict=True):
            if new.owner != slot.owner:
                reassigned.append((slot, new.owner))
            elif new.successor != slot.successor:
                promised.append(slot._replace(successor=new.successor))
        tx.subscriptions.put_slots(subscription.id, promised)
        self._assign(tx, subscription, sessions, reassigned)
        owners = {new.owner for new in shared}
        losing = {slot.owner for slot, _ in reassigned}
        for each in lapsed & losing & owners:  # If its stream went on, it could not tell what it lost.
            lost = sessions[each]
            tx.subscriptions.put_session(lost._replace(holds_until=lost.seen_at + lost.commit_ms * 1000))
        gone = [each for each in sessions if each not in owners and not is_live(sessions[each], now)]
        tx.subscriptions.delete_sessions(gone)
        return bool(reassigned or promised or gone)

    def _assign(
        self,
        tx: Tx,
        subscription: StoredSubscription,
        sessions: Mapping[str, StoredSession],
        assignments: Sequence[tuple[StoredSlot, str | None]],
    ) -> None:
        """Assign partitions to new owners, and give up events that were sent too often."""
        assigned = []
        for slot, owner in assignments:
            new = slot._replace(owner=owner, successor=None, sent=None)
            assigned.append(self._poison_events.start_slot(tx, subscription, new, sessions[owner]) if owner else new)
        tx.subscriptions.put_slots(subscription.id, assigned)


def _find_session(tx: Tx, id: str, session_id: str) -> StoredSession | None:
    return next((each for each in tx.subscriptions.list_sessions(id) if each.id == session_id), None)


def check_partitions(places: Collection[FeedPartition], wanted: Collection[FeedPartition]) -> None:
    """Check that a subscription with these *places* has all partitions *wanted*.

    Raises:
        InvalidSubscription: it does not; the error names the others in the order of *wanted*.
    """
    own = set(places)
    if wrong := [each for each in dict.fromkeys(wanted) if each not in own]:
        detail = f"the subscription does not read {_list_names(wrong)}"
        reason = "are not all of this subscription"
        raise InvalidSubscription(detail, field="partitions", reason=reason, partitions=_describe(wrong))


def _check_conflicts(
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
        raise SubscriptionBusy.of("no-free-slots", subscription=id, slots=len(places))
    conflicts = [each for each in wants if each in taken]
    detail = f"another stream of subscription {id} has asked for {_list_names(conflicts)}"
    raise SubscriptionBusy.of("partitions-taken", detail, subscription=id, partitions=_describe(conflicts))


def _list_names(places: Sequence[FeedPartition]) -> str:
    return ", ".join(f"partition {number} of {name!r}" for name, number in places)


def _describe(places: Sequence[FeedPartition]) -> list[dict[str, str]]:
    return [{"event_type": name, "partition": str(number)} for name, number in places]


def _release_slot(slot: StoredSlot, failed: Collection[FeedPartition] | None) -> StoredSlot:
    """Return a partition without an owner; uncount the failure counted at the end of its stream, unless it *failed*."""
    has_failed = failed is None or slot.place in failed
    counted = slot.sent is not None and slot.sent > slot.offset
    failures = max(0, slot.failed - 1) if counted and not has_failed else slot.failed
    return slot._replace(owner=None, sent=None, failed=failures)
