"""A subscription at one look: who is there, and who of them still has what.

Invariants:
    Time is the database's own, the same for all hubs.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.core.subscriptions.assignment import Place
from penstock.hub.reasons import GIVEN_BACK, GROWN, RESETTING, TIME_OVER
from penstock.storage.parked import Parked
from penstock.storage.subscriptions import Session, Slot, Subscription

LEASE_S: Final = 10.0
"""A hub that was not seen for so long is gone."""
LEASE_US: Final = int(LEASE_S * 1_000_000)


class Look(NamedTuple):
    """A subscription at one look."""

    subscription: Subscription
    slots: Sequence[Slot]
    """None where it has not begun."""
    sessions: Sequence[Session]
    parked: Sequence[Parked]
    now: int
    """By the database's clock; 0 where nothing depends on it."""

    @property
    def present(self) -> Mapping[str, Session]:
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
    def places(self) -> frozenset[Place]:
        """All of its partitions."""
        return frozenset(slot.place for slot in self.slots)

    def session(self, id: str) -> Session | None:
        """Return a stream; None: its time is over."""
        return next((each for each in self.sessions if each.id == id), None)

    def ends(self, session_id: str, places: Collection[Place]) -> str | None:
        """Return why a stream cannot go on that has known these *places*; None: it can."""
        if (self.subscription.resetting_until or 0) > self.now:
            return RESETTING
        session = self.session(session_id)
        if session is None:
            return TIME_OVER
        if session.holds_until is not None:
            return GIVEN_BACK
        return GROWN if places != self.places else None


def is_live(session: Session, now: int) -> bool:
    """Tell whether a stream is being sent."""
    return session.holds_until is None and session.seen_at > now - LEASE_US


def holds(session: Session, slots: Collection[Slot], now: int) -> bool:
    """Tell whether a stream that has ended keeps what it has; also while its hub has yet to end it."""
    if session.holds_until is None:
        return False
    return session.holds_until > now or is_being_sent(session, slots, now)


def is_being_sent(session: Session, slots: Collection[Slot], now: int) -> bool:
    """Tell whether a stream that is to end has a hub that has not said so yet."""
    has_more = any(each.owner == session.id and each.sent is None for each in slots)
    return session.holds_until is not None and session.seen_at > now - LEASE_US and has_more


def has_lapsed(session: Session, now: int) -> bool:
    """Tell whether the hub of a stream is gone, and its time to commit is not over."""
    return (
        session.holds_until is None and session.seen_at + LEASE_US <= now < session.seen_at + session.commit_ms * 1000
    )


def may_commit(session: Session, now: int) -> bool:
    """Tell whether a stream may commit what it was sent: of a hub that is gone, what nobody else has by now."""
    return session.holds_until is None or session.holds_until > now
