"""The hub from afar, for asyncio."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from types import UnionType
from typing import Any, Literal, Unpack

from penstock.client.http.async_transport import AsyncTransport
from penstock.client.http.library import AsyncClosing
from penstock.client.hub_protocol import HubProtocol
from penstock.client.log.async_feed import AsyncFeed
from penstock.client.log.feed import PATIENCE_S
from penstock.client.log.publishing import BATCH_BYTES, BATCH_EVENTS, Batching, Key, Published, each_event, new_event
from penstock.client.registry import (
    Compatibility,
    PartitionOffsets,
    PublishingProperties,
    Traits,
    definition,
    schema_text,
    whole,
)
from penstock.client.retry import RetryPolicy
from penstock.client.subscriptions.async_consumer import AsyncConsumer
from penstock.client.subscriptions.async_stream import AsyncSubscriptionStream
from penstock.client.subscriptions.async_subscriptions import AsyncSubscriptions
from penstock.client.subscriptions.consuming import AsyncConsumerOptions, Consumed
from penstock.client.subscriptions.streaming import StreamOptions, SubscriptionBatch, stream_wish
from penstock.core.events.event import NewEvent
from penstock.wire.groups import (
    CommittedPosition,
    ConsumerGroup,
    ConsumerGroupDetails,
    GroupIntervention,
    NewPosition,
    PositionReset,
    ResetPosition,
)
from penstock.wire.http import check_address
from penstock.wire.log.reader.pages import Data


class AsyncClient(AsyncClosing):
    """A hub's client for async code; see `Client`. Its methods may be called from several tasks at one time.

    Args:
        url, patience: As for `Client`.
        http: An `httpx2.AsyncClient` of your own; it stays yours to close.
    """

    def __init__(self, url: str, *, http: Any = None, patience: float = PATIENCE_S) -> None:
        self._protocol = HubProtocol(check_address(url, relative=http is not None), patience)
        self._transport = AsyncTransport(http)
        self._subscriptions = AsyncSubscriptions(self._protocol.subscriptions, self._transport)

    async def create_event_type(self, name: str, **traits: Unpack[Traits]) -> None:
        """Create an event type; see `Client.create_event_type`."""
        await self._transport.carry_out(self._protocol.event_types.create(definition(name, traits)))

    async def event_types(self) -> list[dict[str, Any]]:
        """Return all event types; see `Client.event_types`."""
        return await self._transport.carry_out(self._protocol.event_types.all())

    async def event_type(self, name: str) -> dict[str, Any]:
        """Return one event type; see `Client.event_type`."""
        return await self._transport.carry_out(self._protocol.event_types.show(name))

    async def replace_event_type(self, definition: Mapping[str, Any], *, allow_reordering: bool = False) -> None:
        """Let an event type be what *definition* says; see `Client.replace_event_type`."""
        replaces = self._protocol.event_types.replace(whole(definition), allow_reordering=allow_reordering)
        await self._transport.carry_out(replaces)

    async def check_definition(self, definition: Mapping[str, Any], *, allow_reordering: bool = False) -> None:
        """Return if the hub would let an event type be what *definition* says; see `Client.check_definition`."""
        checks = self._protocol.event_types.check(whole(definition), allow_reordering=allow_reordering)
        await self._transport.carry_out(checks)

    async def grow_partitions(self, name: str, count: int) -> None:
        """Give the event type partitions until it has *count*; see `Client.grow_partitions`."""
        await self._transport.carry_out(self._protocol.event_types.grow(name, count))

    async def check_compatibility(
        self, name: str, schema: str | Mapping[str, Any], *, version: str = "latest"
    ) -> Compatibility:
        """Tell what giving the event type another JSON Schema would mean; see `Client.check_compatibility`."""
        return await self._transport.carry_out(
            self._protocol.event_types.check_compatibility(name, schema_text(schema), version)
        )

    async def delete_event_type(self, name: str) -> None:
        """Delete an event type and all its events; see `Client.delete_event_type`."""
        await self._transport.carry_out(self._protocol.event_types.delete(name))

    async def partitions(self, name: str) -> list[PartitionOffsets]:
        """Return the offsets of what each partition holds; see `Client.partitions`."""
        return await self._transport.carry_out(self._protocol.event_types.partitions(name))

    async def publish(
        self,
        event_type: str,
        events: Mapping[str, Any] | bytes | NewEvent | Iterable[Any] | AsyncIterable[Any],
        *,
        key: Key = None,
        batch_events: int = BATCH_EVENTS,
        batch_bytes: int = BATCH_BYTES,
        progress: Callable[[Published], object] | None = None,
    ) -> Published:
        """Publish one event or any number of them, from an async iterable too; see `Client.publish`."""
        batching = Batching(event_count=batch_events, byte_count=batch_bytes)
        exchange = self._protocol.publishing.publish(event_type, key, batching, progress)
        given = events if isinstance(events, AsyncIterable) else each_event(events)
        return await self._transport.carry_out(exchange, given)

    def feed(
        self,
        event_type: str,
        *,
        partition_count: int | None = None,
        type: type[Data] | UnionType | None = None,
    ) -> AsyncFeed[Data]:
        """Return the event type's feed, over this client's connections; see `Client.feed`."""
        options = self._protocol.feed_options(event_type, partition_count)
        return AsyncFeed(**options, http=self._transport.http, type=type)

    async def partition_for(self, event_type: str, event: Any, *, key: str | None = None) -> int | None:
        """Return in which partition *event* belongs; see `Client.partition_for`."""
        choice = await self._transport.carry_out(self._protocol.event_types.partition_choice(event_type))
        return choice.of(new_event(event, key))

    async def publishing_properties(
        self, event_type: str, partition: int, producer_group: str
    ) -> PublishingProperties | None:
        """Return how far a producer group has come in a partition; see `Client.publishing_properties`."""
        exchange = self._protocol.event_types.producer(event_type, partition, producer_group)
        return await self._transport.carry_out(exchange)

    async def consumer_groups(self, event_type: str | None = None, *, kind: str | None = None) -> list[ConsumerGroup]:
        """Return the consumer groups whose positions the hub keeps; see `Client.consumer_groups`."""
        return await self._transport.carry_out(self._protocol.consumer_groups.all(event_type, kind))

    async def consumer_group(self, name: str) -> ConsumerGroupDetails:
        """Return a consumer group with all its positions; see `Client.consumer_group`."""
        return await self._transport.carry_out(self._protocol.consumer_groups.show(name))

    async def commit_positions(
        self, group: str, positions: Iterable[NewPosition], *, kind: str | None = None
    ) -> list[CommittedPosition]:
        """Store positions of a consumer group; see `Client.commit_positions`."""
        return await self._transport.carry_out(self._protocol.consumer_groups.commit(group, positions, kind))

    async def reset_positions(
        self,
        group: str,
        items: Iterable[PositionReset] | None = None,
        *,
        to: Literal["begin", "end"] | None = None,
        at: datetime | str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> list[ResetPosition]:
        """Move positions of a consumer group; see `Client.reset_positions`."""
        exchange = self._protocol.consumer_groups.reset(group, items, to=to, at=at, reason=reason, dry_run=dry_run)
        return await self._transport.carry_out(exchange)

    async def group_history(self, group: str, *, limit: int | None = None) -> list[GroupIntervention]:
        """Return what was done to a consumer group over its head; see `Client.group_history`."""
        return await self._transport.carry_out(self._protocol.consumer_groups.history(group, limit))

    async def forget_group(self, group: str) -> None:
        """Forget a consumer group; see `Client.forget_group`."""
        await self._transport.carry_out(self._protocol.consumer_groups.forget(group))

    @property
    def subscriptions(self) -> AsyncSubscriptions:
        """The hub's subscriptions; see `Client.subscriptions`."""
        return self._subscriptions

    def subscription(
        self,
        subscription: str | Mapping[str, Any],
        *,
        reconnect: bool = True,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - it is immutable
        type: type[Data] | UnionType | None = None,
        **options: Unpack[StreamOptions],
    ) -> AsyncSubscriptionStream[Data]:
        """Return the batches of a subscription, to iterate over with `async for`; see `Client.subscription`."""
        return AsyncSubscriptionStream(
            self._transport, self._protocol.url, subscription, stream_wish(options), retry=retry,
            patience=self._protocol.patience, reconnect=reconnect, kind=type,
        )  # fmt: skip

    def consumer(
        self,
        subscription: str | Mapping[str, Any],
        handler: Callable[[SubscriptionBatch[Any]], Awaitable[object]],
        **options: Unpack[AsyncConsumerOptions],
    ) -> AsyncConsumer:
        """Return who consumes a subscription once it is told to `run`; see `Client.consumer`.

        The handler is async, and runs as a task; `on_error` and `progress` may be async, too. What cancels it is an
        `asyncio.Event`.
        """
        return AsyncConsumer(
            self._transport, self._protocol.url, subscription, handler, options, patience=self._protocol.patience
        )

    async def consume(
        self,
        subscription: str | Mapping[str, Any],
        handler: Callable[[SubscriptionBatch[Any]], Awaitable[object]],
        **options: Unpack[AsyncConsumerOptions],
    ) -> Consumed:
        """Have *handler* called with each batch, and commit what it has handled; see `Client.consume`.

        If its task is cancelled, running handlers are cut off; what was handled is committed.
        """
        return await self.consumer(subscription, handler, **options).run()

    def parts(self) -> tuple[HubProtocol, AsyncTransport]:
        """Return what an AsyncIdempotentProducer is made of; see `Client.parts`."""
        return self._protocol, self._transport

    async def aclose(self) -> None:
        """Close the connections, unless they are of a client that was handed in."""
        await self._transport.aclose()
