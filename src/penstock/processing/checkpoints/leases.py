"""Leases on tranches, in the consumer's own database: several processors of one name share the work."""

from collections.abc import Callable, Collection
from typing import Any
from uuid import uuid4

import msgspec

from penstock.core.group_leases import LEASE_SECONDS, Held, Shared, find_held, keep, leave, release, renew
from penstock.processing.checkpoints.database import LEASES, TABLE, OwnTables
from penstock.processing.connecting import Connect, connector
from penstock.processing.database import Plan, Step
from penstock.processing.parameters import check_name, check_seconds


class DatabaseLeases:
    """Leases on tranches for one of several processors of a name, which renews them in time.

    Create one object for each processor. The leases lie beside the tables of the name's checkpoints; their database's
    clock counts.

    Args:
        database: As for `DatabaseCheckpoints`.
        processor: The processors' name.
        lease_seconds: Seconds without a renewal after which other processors get the tranches.
        table: As for `DatabaseCheckpoints`.

    Raises:
        BadParameter: an argument is invalid.
        DatabaseUnsuitable: (methods that use the database) another table has the name of the leases' table.
        DatabaseUnsuitable: (likewise) the table existed before, and is missing now.
        DatabaseUnavailable: (likewise) it cannot be opened, or does not answer; nothing is changed.
        OutcomeUnknown: (likewise) the database did not answer to the commit.
    """

    def __init__(
        self, database: str | Connect, processor: str, *, lease_seconds: float = LEASE_SECONDS, table: str = TABLE
    ) -> None:
        check_name("processor", processor)
        check_name("table", table)
        check_seconds("lease_seconds", lease_seconds)
        self.lease_seconds = lease_seconds
        self.owner = uuid4().hex
        """The unique name of this processor among the others."""
        self.database = database
        self.name = processor
        self._tables = OwnTables(connector(database), table, LEASES, "leases")

    def renew(self, tranches: Collection[str]) -> Held:
        """Renew the lease, and ask for a share of *tranches*; return the assigned ones."""
        lease = round(self.lease_seconds * 1_000_000)
        return self._change(lambda shared, now: renew(shared, self.owner, tranches, now, lease))

    def hold(self) -> Held:
        """Renew the lease without asking for tranches, until all are released; return the present ones."""
        lease = round(self.lease_seconds * 1_000_000)
        return self._change(lambda shared, now: renew(shared, self.owner, (), now, lease, is_leaving=True))

    def keep_in(self, connection: Any) -> Held:
        """Renew the lease in the transaction that is open on *connection*; return the tranches that may be used.

        With SQLite, no other processor can take these tranches during the transaction, even if the lease is over.
        """
        lease = round(self.lease_seconds * 1_000_000)
        plan = self._plan(lambda shared, now: keep(shared, self.owner, now, lease))
        return find_held(self._tables.on(connection).carry_out(plan), self.owner)

    def release(self, tranches: Collection[str]) -> Held:
        """Release tranches, which must have no active calls or uncommitted progress; return the remaining ones."""
        return self._change(lambda shared, _: release(shared, self.owner, tranches))

    def leave(self) -> None:
        """Release all tranches, and leave the group of processors."""
        self._change(lambda shared, _: leave(shared, self.owner))

    def _change(self, change: Callable[[Shared, int], Shared]) -> Held:
        return find_held(self._tables.carry_out(self._plan(change)), self.owner)

    def _plan(self, change: Callable[[Shared, int], Shared]) -> Plan[Shared]:
        name = {"processor": self.name}
        yield Step("lease_begin", name)
        [(text, now)] = yield Step("lease_find", name, finds=True)
        found = change(msgspec.json.decode(text, type=Shared), now)
        yield Step("lease_store", {**name, "shared": msgspec.json.encode(found).decode()})
        return found
