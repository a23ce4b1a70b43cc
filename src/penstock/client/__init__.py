"""The hub from afar: clients that publish and read, and feeds of any ZeroEventHub or FeedAPI server."""

from typing import TYPE_CHECKING

from penstock.lazily import lazily

if TYPE_CHECKING:
    from penstock.client.async_client import AsyncClient
    from penstock.client.client import Client
    from penstock.client.log.async_feed import AsyncFeed, AsyncFollow
    from penstock.client.log.async_positions import AsyncCursorTable
    from penstock.client.log.feed import Feed, Follow
    from penstock.client.log.positions import CursorTable
    from penstock.client.log.publishing import Event, Published
    from penstock.client.producers.async_producer import AsyncIdempotentProducer
    from penstock.client.producers.event_batch import EventBatch
    from penstock.client.producers.options import CloseReport, PartitionPublishingOptions, PublishResult, Resolution
    from penstock.client.producers.producer import IdempotentProducer
    from penstock.client.producers.replay import Replay, Replayed
    from penstock.client.registry import Compatibility, PartitionOffsets, PublishingProperties, SchemaChange
    from penstock.client.retry import RetryPolicy
    from penstock.client.subscriptions.async_consumer import AsyncConsumer
    from penstock.client.subscriptions.async_stream import AsyncSubscriptionStream, AsyncUncommittedBatch
    from penstock.client.subscriptions.async_subscriptions import AsyncSubscriptions
    from penstock.client.subscriptions.consumer import Consumer
    from penstock.client.subscriptions.consuming import Consumed
    from penstock.client.subscriptions.protocol import (
        ParkedEvent,
        ParkedKey,
        ParkedKeyDetails,
        SubscribedPartition,
        Subscription,
        SubscriptionCursor,
    )
    from penstock.client.subscriptions.stream import SubscriptionStream, UncommittedBatch
    from penstock.client.subscriptions.streaming import SubscriptionBatch
    from penstock.client.subscriptions.subscriptions import Subscriptions
    from penstock.core.log.cursor import FIRST, LAST
    from penstock.wire.groups import (
        CommittedPosition,
        ConsumerGroup,
        ConsumerGroupDetails,
        GroupIntervention,
        GroupPosition,
        NewPosition,
        PositionReset,
        ResetPosition,
    )
    from penstock.wire.log.reader.pages import FeedEvent, Page
    from penstock.wire.log.reader.partitions import Discovery, Partition, share
    from penstock.wire.log.reader.reading import ALL_HEADERS
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "client.async_client": ["AsyncClient"],
            "client.client": ["Client"],
            "client.log.async_feed": ["AsyncFeed", "AsyncFollow"],
            "client.log.feed": ["Feed", "Follow"],
            "client.log.async_positions": ["AsyncCursorTable"],
            "client.log.positions": ["CursorTable"],
            "client.log.publishing": ["Event", "Published"],
            "client.producers.async_producer": ["AsyncIdempotentProducer"],
            "client.producers.event_batch": ["EventBatch"],
            "client.producers.options": ["CloseReport", "PartitionPublishingOptions", "PublishResult", "Resolution"],
            "client.producers.producer": ["IdempotentProducer"],
            "client.producers.replay": ["Replay", "Replayed"],
            "client.registry": ["Compatibility", "PartitionOffsets", "PublishingProperties", "SchemaChange"],
            "client.retry": ["RetryPolicy"],
            "client.subscriptions.async_consumer": ["AsyncConsumer"],
            "client.subscriptions.async_stream": ["AsyncSubscriptionStream", "AsyncUncommittedBatch"],
            "client.subscriptions.async_subscriptions": ["AsyncSubscriptions"],
            "client.subscriptions.consumer": ["Consumer"],
            "client.subscriptions.consuming": ["Consumed"],
            "client.subscriptions.protocol": [
                "ParkedEvent",
                "ParkedKey",
                "ParkedKeyDetails",
                "SubscribedPartition",
                "Subscription",
                "SubscriptionCursor",
            ],
            "client.subscriptions.stream": ["SubscriptionStream", "UncommittedBatch"],
            "client.subscriptions.streaming": ["SubscriptionBatch"],
            "client.subscriptions.subscriptions": ["Subscriptions"],
            "core.log.cursor": ["FIRST", "LAST"],
            "wire.groups": [
                "CommittedPosition",
                "ConsumerGroup",
                "ConsumerGroupDetails",
                "GroupIntervention",
                "GroupPosition",
                "NewPosition",
                "PositionReset",
                "ResetPosition",
            ],
            "wire.log.reader.pages": ["FeedEvent", "Page"],
            "wire.log.reader.partitions": ["Discovery", "Partition", "share"],
            "wire.log.reader.reading": ["ALL_HEADERS"],
        },
    )

__all__ = [
    "ALL_HEADERS",
    "FIRST",
    "LAST",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncCursorTable",
    "AsyncFeed",
    "AsyncFollow",
    "AsyncIdempotentProducer",
    "AsyncSubscriptionStream",
    "AsyncSubscriptions",
    "AsyncUncommittedBatch",
    "Client",
    "CloseReport",
    "CommittedPosition",
    "Compatibility",
    "Consumed",
    "Consumer",
    "ConsumerGroup",
    "ConsumerGroupDetails",
    "CursorTable",
    "Discovery",
    "Event",
    "EventBatch",
    "Feed",
    "FeedEvent",
    "Follow",
    "GroupIntervention",
    "GroupPosition",
    "IdempotentProducer",
    "NewPosition",
    "Page",
    "ParkedEvent",
    "ParkedKey",
    "ParkedKeyDetails",
    "Partition",
    "PartitionOffsets",
    "PartitionPublishingOptions",
    "PositionReset",
    "PublishResult",
    "Published",
    "PublishingProperties",
    "Replay",
    "Replayed",
    "ResetPosition",
    "Resolution",
    "RetryPolicy",
    "SchemaChange",
    "SubscribedPartition",
    "Subscription",
    "SubscriptionBatch",
    "SubscriptionCursor",
    "SubscriptionStream",
    "Subscriptions",
    "UncommittedBatch",
    "share",
]
