"""The asynchronous administration of a hub's subscriptions."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.client.http.async_transport import AsyncTransport
from penstock.client.subscriptions.model import (
    ParkedKey,
    ParkedKeyDetails,
    SubscribedPartition,
    Subscription,
    SubscriptionCursor,
)
from penstock.client.subscriptions.protocol import InitialCursors, SubscriptionProtocol
from penstock.core.log.start import Start
from penstock.wire.groups import PositionReset, ResetPosition


class AsyncSubscriptions:
    """Administration of a hub's subscriptions; see `AsyncClient.subscriptions`.

    Its methods raise SubscriptionNotFound if the subscription does not exist, unless they say otherwise.
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
        start: Start | None = None,
        initial_cursors: InitialCursors = (),
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        authorization: Mapping[str, Any] | None = None,
    ) -> tuple[Subscription, bool]:
        """Return the subscription of an application to event types, and whether this call created it.

        An application has one subscription to the same event types for each consumer group. If it exists, all other
        arguments are ignored.

        Args:
            owning_application: The owner.
            event_types: Names of the event types to read.
            consumer_group: Distinguishes subscriptions of the same application to the same event types; `default` by
                default.
            start: Where to begin: `latest` (the default); `earliest`; a time, a datetime with a zone: the first event
                received then or later; or a duration, a timedelta: the same, so long ago.
            initial_cursors: Instead of *start*, cursors to begin at, one for each partition, from `cursors` or in
                Nakadi's format.
            annotations: Annotations, such as `penstock/park-after-attempts`.
            labels: Labels.
            authorization: Who may read and change the subscription, in Nakadi's format.

        Raises:
            TypeError: *event_types* is a string instead of a list of names.
            BadParameter: *start* is none of these, or is given beside *initial_cursors*.
            InvalidSubscription: A member breaks a rule, or an event type does not exist.
            UnusablePosition: A cursor does not belong to these event types, or events after it have been removed.
        """
        members = {
            "owning_application": owning_application,
            "consumer_group": consumer_group,
            "annotations": annotations,
            "labels": labels,
            "authorization": authorization,
        }
        return await self._transport.carry_out(self._protocol.create(event_types, start, initial_cursors, members))

    async def all(
        self,
        *,
        owning_application: str | None = None,
        event_types: Iterable[str] = (),
        reader: str | None = None,
        status: bool = False,
    ) -> list[Subscription]:
        """Return all subscriptions, newest first.

        Args:
            owning_application: Return only subscriptions of this owner.
            event_types: Return only subscriptions that read all of these.
            reader: Return only subscriptions that name this reader, such as `service:billing`.
            status: Whether to fill in `partitions`.
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
        """Replace annotations, labels or authorization of a subscription. Arguments that are None leave them unchanged.

        Raises:
            SubscriptionNotFound: The subscription does not exist.
            InvalidSubscription: A member breaks a rule.
        """
        changes = {"annotations": annotations, "labels": labels, "authorization": authorization}
        await self._transport.carry_out(self._protocol.update(id, changes))

    async def delete(self, id: str) -> None:
        """Delete a subscription with its cursors. Its streams end."""
        await self._transport.carry_out(self._protocol.delete(id))

    async def stats(self, id: str, *, lag: bool = True) -> list[SubscribedPartition]:
        """Return the stream and number of uncommitted events of each partition, with *lag* the oldest one's age."""
        return await self._transport.carry_out(self._protocol.stats(id, lag=lag))

    async def cursors(self, id: str) -> list[SubscriptionCursor]:
        """Return the committed cursor of each partition; empty if the subscription has not begun."""
        return await self._transport.carry_out(self._protocol.cursors(id))

    async def reset(
        self,
        id: str,
        items: Iterable[PositionReset] | None = None,
        *,
        to: Start | None = None,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> list[ResetPosition]:
        """Move the cursors of a subscription forward or back, all or none. The hub records it in the group's history.

        The streams end first, which takes up to 30 seconds. Parked events of these partitions are discarded and read
        again from the new cursors.

        Args:
            id: The subscription.
            items: The partitions to move, and where to. None moves all partitions.
            to: Without *items*: `earliest`; `latest`; a time, a datetime with a zone: the first event received then or
                later; or a duration, a timedelta: the same, so long ago.
            reason: A reason for the history.
            dry_run: Only return the cursors that would be moved.

        Raises:
            SubscriptionNotFound: The subscription does not exist.
            UnusablePosition: A position does not exist.
            SubscriptionBusy: Another reset is running.
            HubUnavailable: The streams did not end in time. Nothing was moved.
        """
        exchange = self._protocol.reset(id, items, to=to, reason=reason, dry_run=dry_run)
        return await self._transport.carry_out(exchange)

    async def parked(self, id: str) -> list[ParkedKey]:
        """Return the parked keys, oldest first."""
        return await self._transport.carry_out(self._protocol.parked(id))

    async def parked_key(self, id: str, parked_id: str, *, limit: int = 10) -> ParkedKeyDetails:
        """Return a parked key with up to *limit* of its events, at most 100.

        Raises:
            SubscriptionNotFound, ParkedNotFound: The subscription or the key does not exist.
        """
        return await self._transport.carry_out(self._protocol.parked_key(id, parked_id, limit))

    async def retry_parked(self, id: str, parked_id: str | None = None) -> int:
        """Send the events of a parked key again, or of all parked keys if None. Return the number of keys.

        Raises:
            SubscriptionNotFound, ParkedNotFound: The subscription or the key does not exist.
        """
        return await self._transport.carry_out(self._protocol.retry_parked(id, parked_id))

    async def skip_parked(self, id: str, parked_id: str, reason: str) -> None:
        """Drop the events of a parked key: they stay in the feed and are not sent.

        Events of the key that lie after uncommitted events are sent once those are committed, as if the key were
        retried.

        Raises:
            SubscriptionNotFound, ParkedNotFound: The subscription or the key does not exist.
        """
        await self._transport.carry_out(self._protocol.skip_parked(id, parked_id, reason))

    async def extend_lease(self, id: str, stream_id: str) -> None:
        """Extend the lease of a stream: restart the time in which it has to commit.

        Raises:
            SubscriptionNotFound: The subscription does not exist.
            StreamNotFound: The stream has ended; its events are sent to another one.
        """
        await self._transport.carry_out(self._protocol.extend_lease(id, stream_id))
