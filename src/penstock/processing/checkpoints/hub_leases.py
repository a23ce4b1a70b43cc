"""Leases on partitions, at the hub: several processors of one name share the work, without a database of their own."""

from collections.abc import Callable, Collection
from typing import Any
from uuid import uuid4

from penstock.client.client import Client
from penstock.client.credentials import make_auth
from penstock.client.groups import ConsumerGroups
from penstock.client.http import adapter
from penstock.core.group_leases import LEASE_SECONDS, Held
from penstock.core.group_names import PATH_NAME_ALLOWED, is_path_name
from penstock.errors import BadParameter, GroupNotFound
from penstock.processing.parameters import check_name, check_seconds
from penstock.wire.groups import HeldTranches
from penstock.wire.http import Exchange, check_address

NOTHING = Held(frozenset(), frozenset())


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

    def renew(self, tranches: Collection[str]) -> Held:
        """Renew the lease, and ask for a share of the partitions *tranches*; return the assigned ones."""
        return self._renew(tranches, leaving=False)

    def hold(self) -> Held:
        """Renew the lease without asking for partitions, until all are released; return the present ones."""
        return self._renew((), leaving=True)

    def release(self, tranches: Collection[str]) -> Held:
        """Release partitions, which must have no active calls or uncommitted progress; return the remaining ones."""
        return self._ask(lambda groups: groups.release(self.name, self.owner, sorted(tranches)))

    def leave(self) -> None:
        """Release all partitions, and leave the group of processors."""
        with self._client() as client:
            protocol, transport = client.parts()
            try:
                transport.carry_out(protocol.consumer_groups.leave(self.name, self.owner))
            except GroupNotFound:
                return  # The group was deleted: there is nothing to release.

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
        # One for each call: calls are seconds apart, and users have nothing to close.
        return Client(self._url, http=self._http, auth=self._auth, retry_timeout=0)
