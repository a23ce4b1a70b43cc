"""Shares the partitions of a subscription out among its streams (digest of Nakadi's contract, 5.8).

There is no I/O here: whoever keeps the slots hands in what they are, and stores what they are to be.

Invariants:
    A partition has one owner at most; it changes hands only when its owner has let go of it, or is gone.
    Streams that have not asked for partitions have as many of the rest as any other of them, or one fewer.
    What need not move does not: shared out again among the same streams, nothing changes.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Place: TypeAlias = tuple[str, int]
"""An event type, and the number of one of its partitions."""


class Session(NamedTuple):
    """A stream, as far as it matters to who gets what."""

    id: str
    wants: frozenset[Place] = frozenset()
    """The partitions that it has asked for, and which it has alone; none: its share of the rest."""


class Slot(NamedTuple):
    """Who has a partition, and who is to have it next."""

    place: Place
    owner: str | None = None
    """The session to which it is streamed; None: nobody."""
    heir: str | None = None
    """The session that gets it as soon as its owner has let go of it; None: it stays where it is."""

    def released(self) -> "Slot":
        """Return what it is when its owner has let go of it."""
        return Slot(self.place, self.heir)


def share_out(
    slots: Sequence[Slot],
    sessions: Collection[Session],
    *,
    holding: Collection[str] = (),
    lapsed: Collection[str] = (),
) -> Sequence[Slot]:
    """Return what *slots* are to be, in their order, for these *sessions*.

    Sessions that are *holding* are no longer among them, but keep what they have until they let go of it. Those that
    have *lapsed* keep what nobody else wants.

    >>> two = [Session("a"), Session("b")]
    >>> share_out([Slot(("orders", 0), "a"), Slot(("orders", 1), "a")], two)
    [Slot(place=('orders', 0), owner='a', heir=None), Slot(place=('orders', 1), owner='a', heir='b')]
    """
    wanted = {place: session.id for session in sessions for place in session.wants}
    rest = [slot for slot in slots if slot.place not in wanted]
    targets = {**wanted, **_even(rest, sorted(session.id for session in sessions if not session.wants))}
    keeping = {session.id for session in sessions}.union(holding)
    return [_turned(slot, targets.get(slot.place), keeping, lapsed) for slot in slots]


def room(slots: Collection[Place], sessions: Collection[Session], session: Session) -> Collection[Place] | None:
    """Return why there is no room for another *session*: the partitions that are taken; None: there is.

    One that asks for partitions gets them unless others have asked for the same. One that does not needs a partition
    of the rest for itself.
    """
    taken = frozenset[Place]().union(*(each.wants for each in sessions))
    if session.wants:
        return session.wants & taken or None
    sharing = sum(not each.wants for each in sessions)
    return None if sharing < len(set(slots) - taken) else frozenset(slots)


def _even(rest: Sequence[Slot], sharing: Sequence[str]) -> Mapping[Place, str]:
    """Share *rest* out evenly among those *sharing*; those that have most have one more, where it does not divide."""
    if not sharing:
        return {}
    holders = {slot.place: slot.heir if slot.heir in sharing else slot.owner for slot in rest}
    held = Counter(holders.values())
    each, more = divmod(len(rest), len(sharing))
    ranked = sorted(sharing, key=lambda session: -held[session])
    quotas = {session: each + (at < more) for at, session in enumerate(ranked)}
    found: dict[Place, str] = {}
    for slot in sorted(rest, key=lambda slot: slot.heir is not None):  # What is on the move already moves first.
        holder = holders[slot.place]
        if holder is not None and quotas.get(holder, 0) > 0:
            quotas[holder] -= 1
            found[slot.place] = holder
    open_ = iter([session for session, left in quotas.items() for _ in range(left)])
    return found | {slot.place: next(open_) for slot in rest if slot.place not in found}


def _turned(slot: Slot, target: str | None, keeping: Collection[str], lapsed: Collection[str]) -> Slot:
    keeps = slot.owner in keeping or (target is None and slot.owner in lapsed)
    owner = slot.owner if keeps else None
    if owner is None or owner == target:
        return Slot(slot.place, target)
    return Slot(slot.place, owner, target)
