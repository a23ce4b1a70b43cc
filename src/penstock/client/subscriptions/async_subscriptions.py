"""The hub's subscriptions, from afar, for asyncio."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from penstock.client.http.async_transport import AsyncTransport
from penstock.client.subscriptions.model import (
    ParkedKey,
    ParkedKeyDetails,
    SubscribedPartition,
    Subscription,
    SubscriptionCursor,
)
from penstock.client.subscriptions.protocol import GivenCursors, SubscriptionProtocol
from penstock.wire.groups import PositionReset, ResetPosition


class AsyncSubscriptions:
    """A hub's subscriptions, for those who look after them; a Client has it.

    Where a method raises nothing that is named here, it raises SubscriptionNotFound where there is none of that id.
    """

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
        """Return the subscription of an application to event types, and whether it was created by this.

        There is one for an application, event types and a consumer group: if it is there already, nothing else of what
        is given here is looked at.

        Args:
            owning_application: Whose it is.
            event_types: What it reads.
            consumer_group: Tells it from others of the same application and event types; `default` unless given.
            read_from: Where it begins: at the `end`, unless given, at the `begin`ning, or at initial cursors.
            initial_cursors: Where it begins, one for each partition: as `cursors` returns them, or in Nakadi's shape.
            annotations: What is attached to it, such as `penstock/park-after-attempts`.
            labels: What else is attached to it.
            authorization: Who may read it, and who may change it, in Nakadi's shape.

        Raises:
            InvalidSubscription: a member breaks a rule, or one of the event types is not there.
            UnusableCursor: one of the cursors is none of these event types, or what follows it is not all there.
        """
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
        """Return all subscriptions, the newest first.

        Args:
            owning_application: Only those of this one.
            event_types: Only those that read each of these.
            reader: Only those that name this one among who may read, such as `service:billing`.
            status: Whether each has `partitions`: who has them.
        """
        return await self._transport.carry_out(
            self._protocol.all(owning_application, event_types, reader, status=status)
        )

    async def show(self, id: str) -> Subscription:
        """Return one subscription."""
        return await self._transport.carry_out(self._protocol.show(id))

    async def update(
        self,
        id: str,
        *,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        authorization: Mapping[str, Any] | None = None,
    ) -> None:
        """Let what is attached to a subscription, or who may read it, be another; what is not given stays.

        Raises:
            SubscriptionNotFound: there is none of that id.
            InvalidSubscription: a member breaks a rule.
        """
        changes = {"annotations": annotations, "labels": labels, "authorization": authorization}
        await self._transport.carry_out(self._protocol.update(id, changes))

    async def delete(self, id: str) -> None:
        """Delete a subscription with its cursors; its streams end."""
        await self._transport.carry_out(self._protocol.delete(id))

    async def stats(self, id: str, *, lag: bool = True) -> list[SubscribedPartition]:
        """Return who has each partition, how many events it has not committed, and with *lag* how old the first is."""
        return await self._transport.carry_out(self._protocol.stats(id, lag=lag))

    async def cursors(self, id: str) -> list[SubscriptionCursor]:
        """Return how far each partition is committed; nothing where the subscription has not begun."""
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
        """Move the cursors of a subscription, forward or back, all or none; the hub remembers it.

        Its streams end first, which takes up to 30 seconds. What waits in parked keys of these partitions begins anew.

        Args:
            id: Which subscription.
            items: What to move where. Without, all that it reads is moved.
            to: Without items, where to: `begin` or `end`.
            at: Without items, the time whose events are wanted first.
            reason: Why, for those who ask later.
            dry_run: Only return what would be moved.

        Returns:
            What was moved, or would be.

        Raises:
            SubscriptionNotFound: there is none of that id.
            UnusablePosition: a position is none that there is.
            ResetUnderWay: somebody else is moving them.
            StreamsInTheWay: its streams did not end in time; nothing was moved.
        """
        exchange = self._protocol.reset(id, items, to=to, at=at, reason=reason, dry_run=dry_run)
        return await self._transport.carry_out(exchange)

    async def parked(self, id: str) -> list[ParkedKey]:
        """Return the parked keys, those first that were parked first."""
        return await self._transport.carry_out(self._protocol.parked(id))

    async def parked_key(self, id: str, parked_id: str, *, limit: int = 10) -> ParkedKeyDetails:
        """Return a parked key with up to *limit*, at most 100, of its events.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is none.
        """
        return await self._transport.carry_out(self._protocol.parked_key(id, parked_id, limit))

    async def retry_parked(self, id: str, parked_id: str | None = None) -> int:
        """Have the events of a parked key, None: of all, sent again; return how many keys that are.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is none.
        """
        return await self._transport.carry_out(self._protocol.retry_parked(id, parked_id))

    async def skip_parked(self, id: str, parked_id: str, reason: str) -> None:
        """Let the events of a parked key wait no longer: they stay in the feed, and are not sent.

        Those ahead of events that are not committed yet are sent once these are, as if the key were retried.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is none.
        """
        await self._transport.carry_out(self._protocol.skip_parked(id, parked_id, reason))

    async def extend_lease(self, id: str, stream_id: str) -> None:
        """Begin anew the time in which a stream has to commit, for a handler that takes longer.

        Raises:
            SubscriptionNotFound: there is none of that id.
            StreamNotFound: the stream is not there any more; its events are sent to another one.
        """
        await self._transport.carry_out(self._protocol.extend_lease(id, stream_id))
