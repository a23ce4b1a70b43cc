"""Leases on partitions, at the hub: several processors of one name share the work, without a database of their own."""

from collections.abc import Callable, Collection
from typing import Any
from uuid import uuid4

from penstock.client.client import Client
from penstock.client.credentials import make_auth
from penstock.client.groups import ConsumerGroups
from penstock.client.http import adapter
from penstock.core.group_leases import LEASE_SECONDS, Held
from penstock.core.groups import PATH_NAME_ALLOWED, is_path_name
from penstock.errors import BadParameter, GroupNotFound
from penstock.processing.parameters import check_name, check_seconds
from penstock.wire.groups import HeldTranches
from penstock.wire.http import Exchange, check_address

NOTHING = Held(frozenset(), frozenset())


class HubLeases:
    """The partitions of feeds that one of several processors of a name has, as long as it renews its lease in time.

    Give each its own. The hub keeps them with the positions of the name's consumer group, by the clock of its database.

    Args:
        url: The hub's address.
        group: The processors' name, as for `HubCheckpoints`.
        lease_seconds: After so many seconds without a renewal a processor is taken for gone, and others have its
            partitions: 0.1 to 3600.
        http: An `httpx2.Client` of your own; it stays yours to close.
        auth: Instead of *http*, the credential that is sent: see `Client`.

    Raises:
        BadParameter: one of them is none.
        GroupKindDiffers: (whatever asks the hub) the group is of another kind.
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
        """The name by which this one is known among the others."""
        self.name = group

    def renew(self, tranches: Collection[str]) -> Held:
        """Extend the lease, and say which partitions there are; return what to have."""
        return self._renew(tranches, leaving=False)

    def hold(self) -> Held:
        """Extend the lease until what one has is released, and want nothing more; return what one has."""
        return self._renew((), leaving=True)

    def release(self, tranches: Collection[str]) -> Held:
        """Let go of partitions of which nothing is under way and all that is done is committed; return what is left."""
        return self._ask(lambda groups: groups.release(self.name, self.owner, sorted(tranches)))

    def leave(self) -> None:
        """Let go of all, and be gone."""
        with self._client() as client:
            protocol, transport = client.parts()
            try:
                transport.carry_out(protocol.consumer_groups.leave(self.name, self.owner))
            except GroupNotFound:
                return  # Somebody has deleted it: there is nothing to let go of.

    def _renew(self, tranches: Collection[str], *, leaving: bool) -> Held:
        return self._ask(
            lambda groups: groups.renew(self.name, self.owner, sorted(tranches), self.lease_seconds, leaving=leaving)
        )

    def _ask(self, ask: Callable[[ConsumerGroups], Exchange[HeldTranches]]) -> Held:
        with self._client() as client:
            protocol, transport = client.parts()
            try:
                found = transport.carry_out(ask(protocol.consumer_groups))
            except GroupNotFound:
                return NOTHING
        return Held(*map(frozenset, (found.tranches, found.leaving, found.coming)))

    def _client(self) -> Client:
        # One for each call: calls are seconds apart, and nobody has to close anything.
        return Client(self._url, http=self._http, auth=self._auth, retry_timeout=0)
