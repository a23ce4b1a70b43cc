"""Leases on tranches, by which several processors of one name share the work: in a database of yours, or in the hub."""

from collections.abc import Callable, Collection
from typing import Any, Final, Protocol
from uuid import uuid4

import msgspec

from penstock.client.client import Client
from penstock.client.credentials import make_auth
from penstock.client.groups import ConsumerGroups
from penstock.client.http import adapter
from penstock.core.group_names import PATH_NAME_ALLOWED, is_path_name
from penstock.core.groups.leases import (
    LEASE_SECONDS,
    GroupLeases,
    MemberTranches,
    extend,
    find_tranches,
    leave,
    release,
    renew,
)
from penstock.errors import BadParameter, GroupNotFound
from penstock.processing.checkpoints.database import LEASES, TABLE, LazyTables
from penstock.processing.database import Connect, Plan, Step, connector
from penstock.processing.parameters import check_name, check_seconds
from penstock.wire.groups import HeldTranches
from penstock.wire.http import Exchange, check_address


class Leases(Protocol):
    """Assigns tranches to one of several processors, for a limited time."""

    @property
    def name(self) -> str:
        """The processors' common name."""
        ...

    @property
    def lease_seconds(self) -> float:
        """Seconds for which a processor keeps its tranches without renewing them."""
        ...

    def renew(self, tranches: Collection[str]) -> MemberTranches:
        """Renew the leases, and ask for a share of *tranches*; return the assigned ones."""
        ...

    def hold(self) -> MemberTranches:
        """Renew the leases without asking for new ones; return the present ones."""
        ...

    def release(self, tranches: Collection[str]) -> MemberTranches:
        """Release *tranches*; return the remaining leases."""
        ...

    def leave(self) -> None:
        """Release all tranches."""
        ...


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
        self._tables = LazyTables(connector(database), table, LEASES, "leases")

    def renew(self, tranches: Collection[str]) -> MemberTranches:
        """Renew the lease, and ask for a share of *tranches*; return the assigned ones."""
        lease = round(self.lease_seconds * 1_000_000)
        return self._change(lambda shared, now: renew(shared, self.owner, tranches, now, lease))

    def hold(self) -> MemberTranches:
        """Renew the lease without asking for tranches, until all are released; return the present ones."""
        lease = round(self.lease_seconds * 1_000_000)
        return self._change(lambda shared, now: renew(shared, self.owner, (), now, lease, is_leaving=True))

    def keep_in(self, connection: Any) -> MemberTranches:
        """Renew the lease in the transaction that is open on *connection*; return the tranches that may be used.

        With SQLite, no other processor can take these tranches during the transaction, even if the lease is over.
        """
        lease = round(self.lease_seconds * 1_000_000)
        plan = self._plan(lambda shared, now: extend(shared, self.owner, now, lease))
        return find_tranches(self._tables.on(connection).carry_out(plan), self.owner)

    def release(self, tranches: Collection[str]) -> MemberTranches:
        """Release tranches, which must have no active calls or uncommitted progress; return the remaining ones."""
        return self._change(lambda shared, _: release(shared, self.owner, tranches))

    def leave(self) -> None:
        """Release all tranches, and leave the group of processors."""
        self._change(lambda shared, _: leave(shared, self.owner))

    def _change(self, change: Callable[[GroupLeases, int], GroupLeases]) -> MemberTranches:
        return find_tranches(self._tables.carry_out(self._plan(change)), self.owner)

    def _plan(self, change: Callable[[GroupLeases, int], GroupLeases]) -> Plan[GroupLeases]:
        name = {"processor": self.name}
        yield Step("lease_begin", name)
        [(text, now)] = yield Step("lease_find", name, finds=True)
        found = change(msgspec.json.decode(text, type=GroupLeases), now)
        yield Step("lease_store", {**name, "shared": msgspec.json.encode(found).decode()})
        return found


NO_LEASES: Final = MemberTranches(frozenset(), frozenset())


class HubLeases:
    """Leases on partitions for one of several processors of a name, which renews them in time.

    Create one object for each processor. The hub stores the leases in the name's consumer group; its database's clock
    counts.

    Args:
        url: The hub's address.
        group: The processors' name, as for `HubCheckpoints`.
        lease_seconds: Seconds without a renewal after which other processors get the partitions: 0.1 to 3600.
        http: An `httpx2.Client` of your own, which you close yourself.
        auth: Instead of *http*, the credential to send: see `Client`.

    Raises:
        BadParameter: an argument is invalid.
        GroupKindDiffers: (methods that call the hub) the group is of another kind.
    """

    def __init__(
        self, url: str, group: str, *, lease_seconds: float = LEASE_SECONDS, http: Any = None, auth: Any = None
    ) -> None:
        check_name("group", group)
        if not is_path_name(group):
            raise BadParameter(parameter="group", value=group, allowed=PATH_NAME_ALLOWED)
        check_seconds("lease_seconds", lease_seconds)
        self._url = check_address(url, relative=http is not None)
        adapter.check_auth(http, auth)
        self._http = http
        self._auth = make_auth(auth)
        self.lease_seconds = lease_seconds
        self.owner = uuid4().hex
        """The unique name of this processor among the others."""
        self.name = group

    def renew(self, tranches: Collection[str]) -> MemberTranches:
        """Renew the lease, and ask for a share of the partitions *tranches*; return the assigned ones."""
        return self._renew(tranches, leaving=False)

    def hold(self) -> MemberTranches:
        """Renew the lease without asking for partitions, until all are released; return the present ones."""
        return self._renew((), leaving=True)

    def release(self, tranches: Collection[str]) -> MemberTranches:
        """Release partitions, which must have no active calls or uncommitted progress; return the remaining ones."""
        return self._call(lambda groups: groups.release(self.name, self.owner, sorted(tranches)))

    def leave(self) -> None:
        """Release all partitions, and leave the group of processors."""
        with self._client() as client:
            protocol, transport = client.parts()
            try:
                transport.carry_out(protocol.consumer_groups.leave(self.name, self.owner))
            except GroupNotFound:
                return  # The group was deleted: there is nothing to release.

    def _renew(self, tranches: Collection[str], *, leaving: bool) -> MemberTranches:
        return self._call(
            lambda groups: groups.renew(self.name, self.owner, sorted(tranches), self.lease_seconds, leaving=leaving)
        )

    def _call(self, ask: Callable[[ConsumerGroups], Exchange[HeldTranches]]) -> MemberTranches:
        with self._client() as client:
            protocol, transport = client.parts()
            try:
                found = transport.carry_out(ask(protocol.consumer_groups))
            except GroupNotFound:
                return NO_LEASES
        return MemberTranches(*map(frozenset, (found.tranches, found.leaving, found.coming)))

    def _client(self) -> Client:
        # One for each call: calls are seconds apart, and users have nothing to close.
        return Client(self._url, http=self._http, auth=self._auth, retry_timeout=0)
