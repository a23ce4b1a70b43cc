"""Leases on the tranches of a consumer group: who of its members is there, and who has what.

They are values: whoever keeps them, a hub or a consumer's own database, changes them in one transaction, by its clock.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from penstock.core.subscriptions.assignment import PartitionSlot, StreamSession, assign_slots

LEASE_SECONDS: Final = 10.0


class Shared(msgspec.Struct, frozen=True):
    """Who is there, and who has what."""

    members: dict[str, int] = {}
    """Until when each is taken to be there, in microseconds since 1970."""
    owners: dict[str, tuple[str | None, str | None]] = {}
    """Of each tranche: who has it, and who is to have it once that one lets go of it."""
    leaving: frozenset[str] = frozenset()
    """Those who end: they keep what they have until they let go of it, and get nothing more."""


class Held(NamedTuple):
    """What one of them has."""

    tranches: frozenset[str]
    """To be read."""
    leaving: frozenset[str]
    """To be let go of, as soon as what is under way is done: another waits for them."""
    coming: frozenset[str] = frozenset()
    """To be had as soon as another lets go of them."""


def renew(
    shared: Shared, me: str, tranches: Collection[str], now: int, lease: int, *, is_leaving: bool = False
) -> Shared:
    """Return who has what once *me* has said to be there for *lease* microseconds more, and knows these *tranches*.

    One that *is_leaving* keeps what it has until it lets go of it, and is given nothing. What nobody has and this one
    knows nothing of, such as a file that was removed, is forgotten: whoever knows it says so.

    >>> first = renew(Shared(), "a", ["0", "1"], 0, 10)
    >>> sorted(find_held(first, "a").tranches)
    ['0', '1']
    >>> sorted(find_held(renew(first, "b", ["0", "1"], 5, 10), "a").leaving)
    ['1']
    >>> sorted(find_held(renew(first, "b", ["1"], 50, 10), "b").tranches)
    ['1']
    """
    members = {name: until for name, until in shared.members.items() if until > now} | {me: now + lease}
    leaving = (shared.leaving & members.keys()) - {me} | ({me} if is_leaving else set())
    sharing = members.keys() - leaving
    there = {name for name, (owner, _) in shared.owners.items() if owner in members or name in tranches or is_leaving}
    known = {**dict.fromkeys(tranches, (None, None)), **{name: shared.owners[name] for name in there}}
    slots = [
        PartitionSlot((name, 0), owner if owner in members else None, successor if successor in sharing else None)
        for name, (owner, successor) in sorted(known.items())
    ]
    found = assign_slots(slots, [StreamSession(name) for name in members if name in sharing], ending=leaving)
    return Shared(members, {slot.place[0]: (slot.owner, slot.successor) for slot in found}, leaving)


def keep(shared: Shared, me: str, now: int, lease: int) -> Shared:
    """Return who has what once *me* has said to be there still: nothing else changes, and whoever is gone stays so.

    >>> keep(renew(Shared(), "a", ["0"], 0, 10), "a", 50, 10).members
    {'a': 60}
    """
    if me not in shared.members:
        return shared
    return Shared(shared.members | {me: now + lease}, shared.owners, shared.leaving)


def release(shared: Shared, me: str, tranches: Collection[str]) -> Shared:
    """Return who has what once *me* has let go of *tranches*."""
    owners = {
        name: (successor, None) if owner == me and name in tranches else (owner, successor)
        for name, (owner, successor) in shared.owners.items()
    }
    return Shared(shared.members, owners, shared.leaving)


def leave(shared: Shared, me: str) -> Shared:
    """Return who has what once *me* is gone."""
    gone = release(shared, me, shared.owners)
    members = {name: until for name, until in gone.members.items() if name != me}
    return Shared(members, gone.owners, gone.leaving - {me})


def find_held(shared: Shared, me: str) -> Held:
    """Return what *me* has."""
    mine = {name: successor for name, (owner, successor) in shared.owners.items() if owner == me}
    leaving = frozenset(name for name, successor in mine.items() if successor is not None)
    coming = frozenset(name for name, (_, successor) in shared.owners.items() if successor == me)
    return Held(frozenset(mine) - leaving, leaving, coming)
