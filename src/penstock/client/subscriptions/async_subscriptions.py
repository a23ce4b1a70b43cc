"""The hub's subscriptions, from afar, for asyncio."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from penstock.client.http.async_transport import AsyncTransport
from penstock.client.subscriptions.protocol import (
    GivenCursors,
    ParkedKey,
    ParkedKeyDetails,
    SubscribedPartition,
    Subscription,
    SubscriptionCursor,
    SubscriptionProtocol,
)
from penstock.wire.groups import PositionReset, ResetPosition


class AsyncSubscriptions:
    """A hub's subscriptions, for those who look after them; an AsyncClient has it. See `Subscriptions`."""

    def __init__(self, protocol: SubscriptionProtocol, transport: AsyncTransport) -> None:
        self._protocol = protocol
        self._transport = transport

    async def create(
        self,
        owning_application: str,
        event_types: Iterable[str],
        *,
        consumer_group: str | None = None,
        read_from: Literal["begin", "end", "cursors"] | None = None,
        initial_cursors: GivenCursors = (),
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        authorization: Mapping[str, Any] | None = None,
    ) -> tuple[Subscription, bool]:
        """Return a subscription, and whether it was created by this; see `Subscriptions.create`."""
        members = {
            "owning_application": owning_application,
            "consumer_group": consumer_group,
            "read_from": read_from,
            "annotations": annotations,
            "labels": labels,
            "authorization": authorization,
        }
        return await self._transport.carry_out(self._protocol.create(event_types, initial_cursors, members))

    async def all(
        self,
        *,
        owning_application: str | None = None,
        event_types: Iterable[str] = (),
        reader: str | None = None,
        status: bool = False,
    ) -> list[Subscription]:
        """Return all subscriptions; see `Subscriptions.all`."""
        return await self._transport.carry_out(
            self._protocol.all(owning_application, event_types, reader, status=status)
        )

    async def show(self, id: str) -> Subscription:
        """Return one subscription; see `Subscriptions.show`."""
        return await self._transport.carry_out(self._protocol.show(id))

    async def update(
        self,
        id: str,
        *,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        authorization: Mapping[str, Any] | None = None,
    ) -> None:
        """Let what is attached to a subscription be another; see `Subscriptions.update`."""
        changes = {"annotations": annotations, "labels": labels, "authorization": authorization}
        await self._transport.carry_out(self._protocol.update(id, changes))

    async def delete(self, id: str) -> None:
        """Delete a subscription; see `Subscriptions.delete`."""
        await self._transport.carry_out(self._protocol.delete(id))

    async def stats(self, id: str, *, lag: bool = True) -> list[SubscribedPartition]:
        """Return who has each partition, and how far behind it is; see `Subscriptions.stats`."""
        return await self._transport.carry_out(self._protocol.stats(id, lag=lag))

    async def cursors(self, id: str) -> list[SubscriptionCursor]:
        """Return how far each partition is committed; see `Subscriptions.cursors`."""
        return await self._transport.carry_out(self._protocol.cursors(id))

    async def reset(
        self,
        id: str,
        items: Iterable[PositionReset] | None = None,
        *,
        to: Literal["begin", "end"] | None = None,
        at: datetime | str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> list[ResetPosition]:
        """Move the cursors of a subscription; see `Subscriptions.reset`."""
        exchange = self._protocol.reset(id, items, to=to, at=at, reason=reason, dry_run=dry_run)
        return await self._transport.carry_out(exchange)

    async def parked(self, id: str) -> list[ParkedKey]:
        """Return the parked keys; see `Subscriptions.parked`."""
        return await self._transport.carry_out(self._protocol.parked(id))

    async def parked_key(self, id: str, parked_id: str, *, limit: int = 10) -> ParkedKeyDetails:
        """Return a parked key with its first events; see `Subscriptions.parked_key`."""
        return await self._transport.carry_out(self._protocol.parked_key(id, parked_id, limit))

    async def retry_parked(self, id: str, parked_id: str | None = None) -> int:
        """Have the events of a parked key, or of all, sent again; see `Subscriptions.retry_parked`."""
        return await self._transport.carry_out(self._protocol.retry_parked(id, parked_id))

    async def skip_parked(self, id: str, parked_id: str, reason: str) -> None:
        """Let the events of a parked key wait no longer; see `Subscriptions.skip_parked`."""
        await self._transport.carry_out(self._protocol.skip_parked(id, parked_id, reason))

    async def extend_lease(self, id: str, stream_id: str) -> None:
        """Begin anew the time in which a stream has to commit; see `Subscriptions.extend_lease`."""
        await self._transport.carry_out(self._protocol.extend_lease(id, stream_id))
