"""Publishes each event at most once, and says for certain what has become of it, for asyncio."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from penstock.client.async_client import AsyncClient
from penstock.client.concurrency import AsyncCancel, AsyncClosing, check_async_cancel
from penstock.client.http.async_transport import AsyncTalk
from penstock.client.http.exchanges import RetryPolicy
from penstock.client.producers.event_batch import EventBatch
from penstock.client.producers.options import (
    CloseReport,
    OnUnknown,
    PartitionPublishingOptions,
    PublishResult,
    Resolution,
)
from penstock.client.producers.partition_state import Lane, Operation
from penstock.client.producers.partitions import (
    ATTEMPT_TIMEOUT,
    BATCH_BYTES,
    CANCEL_GRACE_SECONDS,
    DELIVERY_TIMEOUT,
    Lanes,
    check_client,
)
from penstock.client.producers.turns import AsyncGuard, async_is_free, async_pause, async_publish, async_turn
from penstock.client.registry import PublishingProperties
from penstock.wire.http import Exchange

T = TypeVar("T")


class AsyncIdempotentProducer(AsyncClosing):
    """Publishes to the partitions of one event type, each event at most once and in order.

    Within an event type, a partition and a producer group an event is stored at most once; a call that returns has
    stored its events exactly once; and after any failure the next call on the same partition finds out what has become
    of the last one before it sends anything. Partitions are independent of each other. What ends the promise is told in
    docs/guides/idempotent-publishing.md.

    A task that is cancelled while it publishes waits for the answer to what it has sent, for `cancel_grace_seconds`,
    before it ends as cancelled: events, and batches, know afterwards whether they are published.

    What it is made with stays as it is. Its methods may be called from several tasks at one time: on
    one partition they have their turns in the order in which they came.

    Args:
        client: The hub's client, which stays open when this is closed.
        event_type: Where to.
        producer_group: A name that lasts, such as that of the service: another producer with it takes over, and shuts
            this one out. None: one that nobody has had, which is known after the first call.
        partition_options: With which epoch and number to begin, by partition.
        retry: How a batch is sent again, and the hub asked again.
        pinned: Whether the hub is to remember this group however long nothing is heard of it.
        delivery_timeout: Seconds for which one call tries.
        attempt_timeout: Seconds without a sign of the hub after which an attempt is given up.
        on_unknown: What to do before anything else where it is not known whether the last batch is stored. `resolve`:
            find out; if it is, handing the same events in again succeeds without sending them. `republish`: only see to
            it that it is not stored from here on; handing the same events in again may store them twice.
        cancel_grace_seconds: Seconds for which a call that is cancelled waits for the answer to what it has sent.
        on_resolution: Called with what was found out, before the call that has found it out goes on: it may not publish
            to the same partition itself.

    Raises:
        BadParameter: an argument is out of range.
    """

    def __init__(
        self,
        client: AsyncClient,
        event_type: str,
        *,
        producer_group: str | None = None,
        partition_options: Mapping[int, PartitionPublishingOptions] | None = None,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - it is immutable
        pinned: bool = False,
        delivery_timeout: float = DELIVERY_TIMEOUT,
        attempt_timeout: float = ATTEMPT_TIMEOUT,
        on_unknown: OnUnknown = "resolve",
        cancel_grace_seconds: float = CANCEL_GRACE_SECONDS,
        on_resolution: Callable[[Resolution], object] | None = None,
    ) -> None:
        check_client(client, AsyncClient, "an IdempotentProducer is made")
        protocol, self._transport = client.parts()
        self._lanes = Lanes(
            protocol,
            event_type,
            AsyncGuard,
            group=producer_group,
            options=partition_options or {},
            retry=retry,
            pinned=pinned,
            delivery_timeout=delivery_timeout,
            attempt_timeout=attempt_timeout,
            on_unknown=on_unknown,
            cancel_grace_seconds=cancel_grace_seconds,
            on_resolution=on_resolution,
        )
        self._naming = AsyncGuard()

    @property
    def event_type(self) -> str:
        """Where it publishes to."""
        return self._lanes.producing.event_type

    @property
    def producer_group(self) -> str | None:
        """Its producer group; None: it has not got one yet."""
        return self._lanes.producing.group

    async def send(
        self,
        events: Any,
        *,
        partition: int | None = None,
        cancel: AsyncCancel | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a time that is over does not interrupt what is in flight
    ) -> PublishResult:
        """Publish one event, any number of them, or an EventBatch, all or none; return when they are durably stored.

        Each `Event`, and the batch, knows its number afterwards; where this fails they are as before, and can be handed
        in again, in this set or another. One without events does nothing.

        Args:
            events: An event, or an iterable of them: of what `AsyncClient.publish` takes, or of `Event`.
            partition: Where to; that of a batch is known.
            cancel: An `asyncio.Event`, or anyio's,
                by which the call is told to stop. What has been sent by then is waited for, for
                as long as `cancel_grace_seconds`: if it was stored, the call succeeds.
            timeout: Seconds for this call, in place of `delivery_timeout`.

        Raises:
            PartitionRequired: no partition was named.
            AlreadyPublished: one of them has been published; nothing was sent.
            InvalidEvent, EventTooLarge, PartitionRefused and others: they were refused, and nothing of them is stored.
                Their field `outcome` is `unknown` where an attempt before may have stored them.
            RetriesExhausted: they could not be published in time. Its field `outcome` is `unknown` where they may be
                stored: the next call on this partition finds out.
            BadParameter, Conflict: it was not asked for as it can be; nothing was sent.
            PublishCancelled: the call was cancelled; it has the same field.
            ProducerUnsafe: it is not safe to go on in this partition: close this producer and make another one.
            ClaimRefused, EpochExhausted: the epoch that it is to begin with cannot be had.
        """
        check_async_cancel(cancel)
        lane, values = self._lanes.given(events, partition)
        if not values:
            return self._lanes.nothing(lane)
        operation = self._lanes.operation(timeout, cancel.is_set if cancel else None, values)

        async def work() -> None:
            await self._begin(lane, operation, cancel)
            await self._carry_out(self._lanes.producing.send(lane, values, operation), cancel)

        with self._lanes.marked(events, operation), self._lanes.told(lane, operation):
            entered = self._entered(lane, operation)
            return await async_publish(work, entered, cancel, lanes=self._lanes, lane=lane, operation=operation)

    async def create_batch(self, partition: int, max_bytes: int = BATCH_BYTES) -> EventBatch:
        """Return an empty batch for *partition*, which takes events up to *max_bytes*.

        Raises:
            EventTypeNotFound: there is no such event type.
        """
        lane, operation = self._lanes.lane(partition), self._lanes.operation(None)
        with self._lanes.told(lane, operation):
            category = await self._transport.carry_out(self._lanes.producing.category(operation))
        return self._lanes.batch(lane, max_bytes, category)

    async def get_publishing_properties(self, partition: int, *, refresh: bool = False) -> PublishingProperties:
        """Return how far it has come in a partition, in which it begins if it has not; *refresh*: by what the hub says.

        Raises:
            ClaimRefused, EpochExhausted: the epoch that it is to begin with cannot be had.
            ProducerNotFound: the hub knows nothing of it any more.
        """
        lane, operation = self._lanes.lane(partition), self._lanes.operation(None)
        async with self._entered(lane, operation):
            await self._begin(lane, operation)
            if refresh:
                return await self._transport.carry_out(self._lanes.producing.properties(lane, operation))
        return self._lanes.properties(lane)

    async def resolve(self, partition: int) -> Resolution | None:
        """Find out, once and for all, whether the last batch is stored; None: that is known.

        Raises:
            ProducerUnsafe: somebody else has taken over, or the hub has lost something.
        """
        lane, operation = self._lanes.lane(partition), self._lanes.operation(None)
        async with self._entered(lane, operation):
            return await self._transport.carry_out(self._lanes.producing.resolve(lane, operation))

    async def aclose(self, timeout: float | None = None) -> CloseReport:  # noqa: ASYNC109 - it interrupts nothing
        """Publish nothing more, wait for what is being published, and return what is left open.

        Args:
            timeout: Seconds to wait; None: as long as the calls last.
        """
        operation = self._lanes.closed(timeout)
        lanes = [(lane.partition, self._lanes.guard(lane)) for lane in self._lanes.all()]
        unfinished = [partition for partition, guard in lanes if not await async_is_free(guard, operation)]
        return self._lanes.report(unfinished)

    def __repr__(self) -> str:
        return self._lanes.shown(self)

    async def _begin(self, lane: Lane, operation: Operation, cancel: AsyncCancel | None = None) -> None:
        """Begin in a partition; one at a time as long as there is no group, so that all have the same."""
        if self.producer_group is None:
            async with async_turn(self._naming, self._lanes, lane, operation):
                await self._carry_out(self._lanes.producing.begin(lane, operation), cancel)
        else:
            await self._carry_out(self._lanes.producing.begin(lane, operation), cancel)

    async def _carry_out(self, exchange: Exchange[T], cancel: AsyncCancel | None) -> T:
        talk = AsyncTalk(self._transport.http, exchange, sleep=async_pause(cancel))
        try:
            while await talk.advance() is not None:
                pass
            return talk.outcome
        finally:
            await talk.aclose()

    @asynccontextmanager
    async def _entered(self, lane: Lane, operation: Operation) -> AsyncIterator[None]:
        async with async_turn(self._lanes.guard(lane), self._lanes, lane, operation):
            self._lanes.check_open()
            yield
