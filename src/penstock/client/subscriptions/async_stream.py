"""The asynchronous stream of a subscription's batches."""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Generic, Self

from penstock.client.concurrency import AsyncClosing, async_shield
from penstock.client.http.async_transport import AsyncTransport
from penstock.client.http.exchanges import RetryPolicy
from penstock.client.http.reading import AsyncExchangeReader
from penstock.client.subscriptions.model import (
    ParkedKey,
    ParkedKeyDetails,
    SubscribedPartition,
    Subscription,
    SubscriptionCursor,
)
from penstock.client.subscriptions.protocol import SubscriptionProtocol
from penstock.client.subscriptions.stream_protocol import (
    StreamBegan,
    StreamEnded,
    StreamParameters,
    StreamProtocol,
    SubscriptionBatch,
)
from penstock.core.events.decoding import EventDecoder
from penstock.core.log.start import Start
from penstock.wire.groups import PositionReset, ResetPosition
from penstock.wire.log.reader.pages import Data
from penstock.wire.subscriptions import BatchLine


class AsyncUncommittedBatch(SubscriptionBatch[Data]):
    """A batch that can be committed; see `SubscriptionBatch` for its contents."""

    __slots__ = ("_stream",)

    def __init__(
        self, stream: "AsyncSubscriptionStream[Any]", stream_id: str, line: BatchLine, decoder: EventDecoder | None
    ) -> None:
        super().__init__(stream_id, line, decoder)
        self._stream = stream

    async def commit(self) -> None:
        """Commit all events of the partition up to this batch. Repeating it is harmless.

        Raises:
            StreamNotFound: The stream's time to commit is over; its events are sent again.
            CommitRefused: Another stream has the partition now, and is sent its events.
        """
        await self._stream.commit([self])


class AsyncSubscriptionStream(AsyncClosing, Generic[Data]):
    """A subscription: its batches, by iteration, within a context manager that closes it; and calls that look after it.

    `AsyncClient.subscription` creates it, and requests nothing yet. Keep-alive lines are not shown. All methods except
    iteration may be called from other tasks.

    A cancellation takes effect at once and loses no events: they are sent again.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        url: str,
        subscription: str | Mapping[str, Any],
        parameters: StreamParameters,
        *,
        retry: RetryPolicy,
        retry_timeout: float,
        reconnect: bool,
        kind: Any,
        subscriptions: SubscriptionProtocol,
    ) -> None:
        self.protocol = StreamProtocol(
            url, subscription, parameters, retry=retry, retry_timeout=retry_timeout, clock=time.monotonic, kind=kind,
            make=partial(AsyncUncommittedBatch, self),
        )  # fmt: skip
        self._transport = transport
        self._subscriptions = subscriptions
        self._is_given_back = False
        self.reason: str | None = None
        """Why the last stream ended, in the hub's words; None if none has ended."""
        self.reading = AsyncExchangeReader(transport.http, self.protocol.run(reconnect=reconnect))

    @property
    def id(self) -> str | None:
        """The subscription's id; None until a subscription to be created is requested."""
        return self.protocol.id

    @property
    def stream_id(self) -> str | None:
        """The id of the last stream."""
        return self.protocol.stream_id

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncUncommittedBatch[Data]:
        while (news := await self.advance()) is not None:
            if isinstance(news, AsyncUncommittedBatch):
                return news
        raise StopAsyncIteration

    async def advance(self) -> AsyncUncommittedBatch[Data] | StreamBegan | StreamEnded | None:
        """Return the next batch, or the beginning or end of a stream; None at the end of the iteration."""
        news: AsyncUncommittedBatch[Data] | StreamBegan | StreamEnded | None = await self.reading.advance()
        if isinstance(news, StreamEnded):
            self.reason = news.reason
        return news

    async def commit(self, batches: Iterable[SubscriptionBatch[Any]]) -> None:
        """Commit several batches in one request: in each partition all events up to the last batch.

        Raises:
            StreamNotFound, CommitRefused: As for `AsyncUncommittedBatch.commit`. Nothing was committed.
        """
        await self._transport.carry_out(self.protocol.commit(list(batches)))

    async def extend_lease(self) -> None:
        """Extend the stream's lease: restart the time in which it has to commit.

        Raises:
            StreamNotFound: The stream has ended.
        """
        if self.stream_id is not None:
            await self._transport.carry_out(self.protocol.extend(self.stream_id))

    def end(self, stream_id: str) -> None:
        """Stop reading a stream, from another task too. The next one begins, unless the iteration is to end."""
        self.protocol.abandon(stream_id)
        if self.stream_id == stream_id:
            self.reading.interrupt()

    def stop(self) -> None:
        """End the iteration, from another task too. Received batches can still be committed."""
        self.reading.stop()

    async def aclose(self) -> None:
        """End the iteration and release the stream; other consumers get its uncommitted events.

        Received batches that are not committed count as failures, as if the consumer had crashed; events that were sent
        but not received do not.
        """
        self.stop()
        with async_shield(self.protocol.retry_timeout):
            await self.reading.aclose()
            if self.stream_id is not None and not self._is_given_back:
                self._is_given_back = True
                await self._transport.carry_out(self.protocol.release_quietly(self.stream_id))

    async def show(self) -> Subscription:
        """Return one subscription."""
        return await self._transport.carry_out(self._subscriptions.show(await self._find_id()))

    async def update(
        self,
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
        await self._transport.carry_out(self._subscriptions.update(await self._find_id(), changes))

    async def delete(self) -> None:
        """Delete a subscription with its cursors. Its streams end."""
        await self._transport.carry_out(self._subscriptions.delete(await self._find_id()))

    async def stats(self, *, lag: bool = True) -> list[SubscribedPartition]:
        """Return the stream and number of uncommitted events of each partition, with *lag* the oldest one's age."""
        return await self._transport.carry_out(self._subscriptions.stats(await self._find_id(), lag=lag))

    async def cursors(self) -> list[SubscriptionCursor]:
        """Return the committed cursor of each partition; empty if the subscription has not begun."""
        return await self._transport.carry_out(self._subscriptions.cursors(await self._find_id()))

    async def reset(
        self,
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
        exchange = self._subscriptions.reset(await self._find_id(), items, to=to, reason=reason, dry_run=dry_run)
        return await self._transport.carry_out(exchange)

    async def parked(self) -> list[ParkedKey]:
        """Return the parked keys, oldest first."""
        return await self._transport.carry_out(self._subscriptions.parked(await self._find_id()))

    async def parked_key(self, parked_id: str, *, limit: int = 10) -> ParkedKeyDetails:
        """Return a parked key with up to *limit* of its events, at most 100.

        Raises:
            SubscriptionNotFound, ParkedNotFound: The subscription or the key does not exist.
        """
        return await self._transport.carry_out(self._subscriptions.parked_key(await self._find_id(), parked_id, limit))

    async def retry_parked(self, parked_id: str | None = None) -> int:
        """Send the events of a parked key again, or of all parked keys if None. Return the number of keys.

        Raises:
            SubscriptionNotFound, ParkedNotFound: The subscription or the key does not exist.
        """
        return await self._transport.carry_out(self._subscriptions.retry_parked(await self._find_id(), parked_id))

    async def skip_parked(self, parked_id: str, reason: str) -> None:
        """Drop the events of a parked key: they stay in the feed and are not sent.

        Events of the key that lie after uncommitted events are sent once those are committed, as if the key were
        retried.

        Raises:
            SubscriptionNotFound, ParkedNotFound: The subscription or the key does not exist.
        """
        await self._transport.carry_out(self._subscriptions.skip_parked(await self._find_id(), parked_id, reason))

    async def _find_id(self) -> str:
        """Return the subscription's id; it is created if it does not exist."""
        found: str = await self._transport.carry_out(self.protocol.find_subscription())
        return found
