"""Leases on tranches, in the consumer's own database: several processors of one name share the work."""

from collections.abc import Callable, Collection
from typing import Final
from uuid import uuid4

import msgspec

from penstock.errors import OutcomeUnknown
from penstock.processing.checkpoints.database import TABLE
from penstock.processing.connecting import Connect, connector, is_passing, transaction
from penstock.processing.database import Database, Plan, Step
from penstock.processing.parameters import check_consumer, check_seconds
from penstock.processing.sharing import Held, Shared, held, left, released, renewed

LEASE_S: Final = 10.0


class DatabaseLeases:
    """The tranches that one of several processors of a name has, as long as it says in time that it is there.

    Give each its own; they share the tables of the name's checkpoints, and their database's clock tells the time.

    Args:
        database: As for `DatabaseCheckpoints`.
        processor: The name.
        lease_s: After so many seconds without a sign a processor is taken for gone, and others have its tranches.
        table: As for `DatabaseCheckpoints`.

    Raises:
        BadParameter: one of them is none.
    """

    def __init__(
        self, database: str | Connect, processor: str, *, lease_s: float = LEASE_S, table: str = TABLE
    ) -> None:
        check_consumer(processor)
        check_seconds("lease_s", lease_s)
        self.lease_s = lease_s
        self.owner = uuid4().hex
        """The name by which this one is known among the others."""
        self._connect = connector(database)
        self._processor = processor
        self._table = table
        self._is_created = False

    def renew(self, tranches: Collection[str]) -> Held:
        """Say to be there, and which tranches there are; return what to have.

        Raises:
            OutcomeUnknown: the database did not answer.
        """
        lease = round(self.lease_s * 1_000_000)
        return self._change(lambda shared, now: renewed(shared, self.owner, tranches, now, lease))

    def release(self, tranches: Collection[str]) -> Held:
        """Let go of tranches of which nothing is under way, and all that is done is committed; return what is left.

        Raises:
            OutcomeUnknown: the database did not answer.
        """
        return self._change(lambda shared, _: released(shared, self.owner, tranches))

    def leave(self) -> None:
        """Let go of all, and be gone.

        Raises:
            OutcomeUnknown: the database did not answer.
        """
        self._change(lambda shared, _: left(shared, self.owner))

    def _change(self, change: Callable[[Shared, int], Shared]) -> Held:
        try:
            with transaction(self._connect) as connection:
                database = Database(connection, self._table)
                if not self._is_created:
                    database.create("lease_create")
                found = database.carry_out(self._plan(change))
        except Exception as error:
            if not is_passing(error):
                raise
            raise OutcomeUnknown(reason=f"the leases' database: {error}") from error
        self._is_created = True
        return held(found, self.owner)

    def _plan(self, change: Callable[[Shared, int], Shared]) -> Plan[Shared]:
        name = {"processor": self._processor}
        yield Step("lease_begin", name)
        [(text, now)] = yield Step("lease_find", name, finds=True)
        found = change(msgspec.json.decode(text, type=Shared), now)
        yield Step("lease_store", {**name, "shared": msgspec.json.encode(found).decode()})
        return found
