"""Leases on the tranches of a consumer group: its members, and the owner and the successor of each tranche.

The functions return changed values. A hub or a consumer's own database stores them: each change is one transaction,
by the clock of that database.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from penstock.core.subscriptions.assignment import PartitionSlot, StreamSession, assign_slots

LEASE_SECONDS: Final = 10.0


class GroupLeases(msgspec.Struct, frozen=True):
    """The members of a consumer group, and the owner and the successor of each tranche."""

    members: dict[str, int] = {}
    """When the lease of each member ends, in microseconds since 1970."""
    owners: dict[str, tuple[str | None, str | None]] = {}
    """The owner of each tranche, and the successor that gets it when the owner releases it."""
    leaving: frozenset[str] = frozenset()
    """Members that are leaving: they keep their tranches until they release them, and get no others."""


class MemberTranches(NamedTuple):
    """The tranches of one member of a consumer group."""

    tranches: frozenset[str]
    """Those that the member owns and reads."""
    leaving: frozenset[str]
    """Those that the member owns and has to release once its active calls have ended: a successor waits for them."""
    coming: frozenset[str] = frozenset()
    """Those that the member gets once their owners release them."""


def renew(
    leases: GroupLeases, member: str, tranches: Collection[str], now: int, lease_us: int, *, is_leaving: bool = False
) -> GroupLeases:
    """Extend or begin the lease of *member*, which lists the *tranches* it knows; assign all tranches again.

    The lease ends *lease_us* microseconds after *now*. A member that *is_leaving* keeps its tranches until it releases
    them, and gets no others. A tranche without an owner is forgotten if *member* does not list it, as one of a file
    that was removed: a member that still knows it lists it when it renews its own lease.

    >>> first = renew(GroupLeases(), "a", ["0", "1"], 0, 10)
    >>> sorted(find_tranches(first, "a").tranches)
    ['0', '1']
    >>> sorted(find_tranches(renew(first, "b", ["0", "1"], 5, 10), "a").leaving)
    ['1']
    >>> sorted(find_tranches(renew(first, "b", ["1"], 50, 10), "b").tranches)
    ['1']
    """
    members = {name: until for name, until in leases.members.items() if until > now} | {member: now + lease_us}
    leaving = (leases.leaving & members.keys()) - {member} | ({member} if is_leaving else set())
    staying = members.keys() - leaving
    kept = {name for name, (owner, _) in leases.owners.items() if owner in members or name in tranches or is_leaving}
    known = {**dict.fromkeys(tranches, (None, None)), **{name: leases.owners[name] for name in kept}}
    slots = [
        PartitionSlot((name, 0), owner if owner in members else None, successor if successor in staying else None)
        for name, (owner, successor) in sorted(known.items())
    ]
    assigned = assign_slots(slots, [StreamSession(name) for name in members if name in staying], ending=leaving)
    return GroupLeases(members, {slot.place[0]: (slot.owner, slot.successor) for slot in assigned}, leaving)


def extend(leases: GroupLeases, member: str, now: int, lease_us: int) -> GroupLeases:
    """Extend the lease of *member* without assigning tranches; a member that was removed is not added again.

    >>> extend(renew(GroupLeases(), "a", ["0"], 0, 10), "a", 50, 10).members
    {'a': 60}
    """
    if member not in leases.members:
        return leases
    return GroupLeases(leases.members | {member: now + lease_us}, leases.owners, leases.leaving)


def release(leases: GroupLeases, member: str, tranches: Collection[str]) -> GroupLeases:
    """Give the *tranches* that *member* owns to their successors."""
    owners = {
        name: (successor, None) if owner == member and name in tranches else (owner, successor)
        for name, (owner, successor) in leases.owners.items()
    }
    return GroupLeases(leases.members, owners, leases.leaving)


def leave(leases: GroupLeases, member: str) -> GroupLeases:
    """Release all tranches of *member*, and remove it from the group."""
    released = release(leases, member, leases.owners)
    members = {name: until for name, until in released.members.items() if name != member}
    return GroupLeases(members, released.owners, released.leaving - {member})


def find_tranches(leases: GroupLeases, member: str) -> MemberTranches:
    """Return the tranches that *member* owns, and those it gets once their owners release them."""
    owned = {name: successor for name, (owner, successor) in leases.owners.items() if owner == member}
    leaving = frozenset(name for name, successor in owned.items() if successor is not None)
    coming = frozenset(name for name, (_, successor) in leases.owners.items() if successor == member)
    return MemberTranches(frozenset(owned) - leaving, leaving, coming)
