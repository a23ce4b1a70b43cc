"""Assigns the partitions of a subscription to its streams.

No I/O: the caller passes the current slots, and stores the returned ones.

Source: Nakadi's rebalancing, https://github.com/zalando/nakadi; see docs/decisions/nakadi-contract.md.

Invariants:
    A partition has at most one owner, and changes hands only when its owner has released it or is gone.
    Streams that have not requested partitions share the rest evenly: their counts differ by at most one.
    Assignment moves as few partitions as possible; among the same streams nothing changes.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

FeedPartition: TypeAlias = tuple[str, int]
"""The name of a feed, and the number of one of its partitions."""


class PoisonOffset(NamedTuple):
    """An event that a consumer gives up."""

    place: FeedPartition
    epoch: int
    """The epoch of its feed."""
    offset: int
    attempts: int
    """How often the consumer has tried to handle it."""


class StreamSession(NamedTuple):
    """A stream of a subscription, as the assignment sees it."""

    id: str
    wants: frozenset[FeedPartition] = frozenset()
    """The partitions that it has requested, and owns alone; empty: it gets its share of the rest."""


class PartitionSlot(NamedTuple):
    """The owner of a partition, and its next owner."""

    place: FeedPartition
    owner: str | None = None
    """The session to which the partition is streamed; None: there is none."""
    successor: str | None = None
    """The session that becomes the owner once the current one has released the partition; None: the owner stays."""

    def release(self) -> "PartitionSlot":
        """Return the slot after its owner has released the partition."""
        return PartitionSlot(self.place, self.successor)


def assign_slots(
    slots: Sequence[PartitionSlot],
    sessions: Collection[StreamSession],
    *,
    ending: Collection[str] = (),
    expired: Collection[str] = (),
) -> Sequence[PartitionSlot]:
    """Return the new *slots*, in the same order, for these *sessions*.

    *ending* are ids of ended sessions that keep their partitions until they release them. *expired* are ids of sessions
    whose lease has expired; they keep only partitions that no other session gets.

    >>> two = [StreamSession("a"), StreamSession("b")]
    >>> slots = assign_slots([PartitionSlot(("orders", 0), "a"), PartitionSlot(("orders", 1), "a")], two)
    >>> [(slot.owner, slot.successor) for slot in slots]
    [('a', None), ('a', 'b')]
    """
    wanted = {place: session.id for session in sessions for place in session.wants}
    rest = [slot for slot in slots if slot.place not in wanted]
    targets = {**wanted, **_distribute(rest, sorted(session.id for session in sessions if not session.wants))}
    keeping = {session.id for session in sessions}.union(ending)
    return [_assign_slot(slot, targets.get(slot.place), keeping, expired) for slot in slots]


def find_conflicts(
    slots: Collection[FeedPartition], sessions: Collection[StreamSession], session: StreamSession
) -> Collection[FeedPartition] | None:
    """Return the taken partitions that leave no room for another *session*; None if there is room.

    A session that requests partitions gets them unless another session has requested the same. One that does not needs
    at least one partition of the rest.
    """
    taken = frozenset[FeedPartition]().union(*(each.wants for each in sessions))
    if session.wants:
        return session.wants & taken or None
    sharing = sum(not each.wants for each in sessions)
    return None if sharing < len(set(slots) - taken) else frozenset(slots)


def _distribute(rest: Sequence[PartitionSlot], sharing: Sequence[str]) -> Mapping[FeedPartition, str]:
    """Distribute *rest* evenly among *sharing*; if it does not divide, sessions that own most get one more."""
    if not sharing:
        return {}
    holders = {slot.place: slot.successor if slot.successor in sharing else slot.owner for slot in rest}
    held = Counter(holders.values())
    each, more = divmod(len(rest), len(sharing))
    ranked = sorted(sharing, key=lambda session: -held[session])
    quotas = {session: each + (at < more) for at, session in enumerate(ranked)}
    found: dict[FeedPartition, str] = {}
    # Partitions that are moving already move first.
    for slot in sorted(rest, key=lambda slot: slot.successor is not None):
        holder = holders[slot.place]
        if holder is not None and quotas.get(holder, 0) > 0:
            quotas[holder] -= 1
            found[slot.place] = holder
    open_ = iter([session for session, left in quotas.items() for _ in range(left)])
    return found | {slot.place: next(open_) for slot in rest if slot.place not in found}


def _assign_slot(
    slot: PartitionSlot, target: str | None, keeping: Collection[str], expired: Collection[str]
) -> PartitionSlot:
    keeps = slot.owner in keeping or (target is None and slot.owner in expired)
    owner = slot.owner if keeps else None
    if owner is None or owner == target:
        return PartitionSlot(slot.place, target)
    return PartitionSlot(slot.place, owner, target)
