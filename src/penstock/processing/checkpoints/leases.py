"""Leases on tranches, in the consumer's own database: several processors of one name share the work."""

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec

from penstock.core.subscriptions.assignment import PartitionSlot, StreamSession, assign_slots
from penstock.processing.checkpoints.database import LEASES, TABLE, OwnTables
from penstock.processing.connecting import Connect, connector
from penstock.processing.database import Plan, Step
from penstock.processing.parameters import check_name, check_seconds


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


def renewed(
    shared: Shared, me: str, tranches: Collection[str], now: int, lease: int, *, is_leaving: bool = False
) -> Shared:
    """Return who has what once *me* has said to be there for *lease* microseconds more, and knows these *tranches*.

    One that *is_leaving* keeps what it has until it lets go of it, and is given nothing. What nobody has and this one
    knows nothing of, such as a file that was removed, is forgotten: whoever knows it says so.

    >>> first = renewed(Shared(), "a", ["0", "1"], 0, 10)
    >>> sorted(held(first, "a").tranches)
    ['0', '1']
    >>> sorted(held(renewed(first, "b", ["0", "1"], 5, 10), "a").leaving)
    ['1']
    >>> sorted(held(renewed(first, "b", ["1"], 50, 10), "b").tranches)
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


def kept(shared: Shared, me: str, now: int, lease: int) -> Shared:
    """Return who has what once *me* has said to be there still: nothing else changes, and whoever is gone stays so.

    >>> kept(renewed(Shared(), "a", ["0"], 0, 10), "a", 50, 10).members
    {'a': 60}
    """
    if me not in shared.members:
        return shared
    return Shared(shared.members | {me: now + lease}, shared.owners, shared.leaving)


def released(shared: Shared, me: str, tranches: Collection[str]) -> Shared:
    """Return who has what once *me* has let go of *tranches*."""
    owners = {
        name: (successor, None) if owner == me and name in tranches else (owner, successor)
        for name, (owner, successor) in shared.owners.items()
    }
    return Shared(shared.members, owners, shared.leaving)


def left(shared: Shared, me: str) -> Shared:
    """Return who has what once *me* is gone."""
    gone = released(shared, me, shared.owners)
    members = {name: until for name, until in gone.members.items() if name != me}
    return Shared(members, gone.owners, gone.leaving - {me})


def held(shared: Shared, me: str) -> Held:
    """Return what *me* has."""
    mine = {name: successor for name, (owner, successor) in shared.owners.items() if owner == me}
    leaving = frozenset(name for name, successor in mine.items() if successor is not None)
    coming = frozenset(name for name, (_, successor) in shared.owners.items() if successor == me)
    return Held(frozenset(mine) - leaving, leaving, coming)


LEASE_SECONDS: Final = 10.0


class DatabaseLeases:
    """The tranches that one of several processors of a name has, as long as it says in time that it is there.

    Give each its own; they share the tables of the name's checkpoints, and their database's clock tells the time.

    Args:
        database: As for `DatabaseCheckpoints`.
        processor: The name.
        lease_seconds: After so many seconds without a sign a processor is taken for gone, and others have its tranches.
        table: As for `DatabaseCheckpoints`.

    Raises:
        BadParameter: one of them is none.
        DatabaseUnsuitable: (whatever asks the database) another table has the name of theirs.
        DatabaseUnsuitable: (likewise) it was there, and is not any more.
        DatabaseUnavailable: (likewise) it cannot be opened, or does not answer; nothing is changed.
        OutcomeUnknown: (likewise) it did not answer when it was to commit.
    """

    def __init__(
        self, database: str | Connect, processor: str, *, lease_seconds: float = LEASE_SECONDS, table: str = TABLE
    ) -> None:
        check_name("processor", processor)
        check_name("table", table)
        check_seconds("lease_seconds", lease_seconds)
        self.lease_seconds = lease_seconds
        self.owner = uuid4().hex
        """The name by which this one is known among the others."""
        self.database = database
        self.name = processor
        self._tables = OwnTables(connector(database), table, LEASES, "leases")

    def renew(self, tranches: Collection[str]) -> Held:
        """Say to be there, and which tranches there are; return what to have."""
        lease = round(self.lease_seconds * 1_000_000)
        return self._change(lambda shared, now: renewed(shared, self.owner, tranches, now, lease))

    def hold(self) -> Held:
        """Say to be there still, until what one has is let go of, and to want nothing more; return what one has."""
        lease = round(self.lease_seconds * 1_000_000)
        return self._change(lambda shared, now: renewed(shared, self.owner, (), now, lease, is_leaving=True))

    def keep_in(self, connection: Any) -> Held:
        """Say to be there still, in the transaction that is open on *connection*; return what one has, and may use.

        For SQLite: as long as that transaction lasts, nobody else can have any of it, though the lease were over.
        """
        lease = round(self.lease_seconds * 1_000_000)
        plan = self._plan(lambda shared, now: kept(shared, self.owner, now, lease))
        return held(self._tables.on(connection).carry_out(plan), self.owner)

    def release(self, tranches: Collection[str]) -> Held:
        """Let go of tranches of which nothing is under way, and all that is done is committed; return what is left."""
        return self._change(lambda shared, _: released(shared, self.owner, tranches))

    def leave(self) -> None:
        """Let go of all, and be gone."""
        self._change(lambda shared, _: left(shared, self.owner))

    def _change(self, change: Callable[[Shared, int], Shared]) -> Held:
        return held(self._tables.carry_out(self._plan(change)), self.owner)

    def _plan(self, change: Callable[[Shared, int], Shared]) -> Plan[Shared]:
        name = {"processor": self.name}
        yield Step("lease_begin", name)
        [(text, now)] = yield Step("lease_find", name, finds=True)
        found = change(msgspec.json.decode(text, type=Shared), now)
        yield Step("lease_store", {**name, "shared": msgspec.json.encode(found).decode()})
        return found
