"""Leases on tranches, in the consumer's own database: several processors of one name share the work."""

from collections.abc import Callable, Collection
from typing import Any
from uuid import uuid4

import msgspec

from penstock.core.group_leases import LEASE_SECONDS, Held, Shared, held, kept, left, released, renewed
from penstock.processing.checkpoints.database import LEASES, TABLE, OwnTables
from penstock.processing.connecting import Connect, connector
from penstock.processing.database import Plan, Step
from penstock.processing.parameters import check_name, check_seconds


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
