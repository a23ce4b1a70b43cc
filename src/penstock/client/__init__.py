"""The hub from afar: clients that publish and read, and feeds of any ZeroEventHub or FeedAPI server."""

from typing import TYPE_CHECKING

from penstock.lazily import lazily

if TYPE_CHECKING:
    from penstock.client.async_client import AsyncClient
    from penstock.client.async_consumer import AsyncConsumer
    from penstock.client.async_feed import AsyncFeed, AsyncFollow
    from penstock.client.async_idempotent_producer import AsyncIdempotentProducer
    from penstock.client.async_subscription_stream import AsyncSubscriptionStream, AsyncUncommittedBatch
    from penstock.client.async_subscriptions import AsyncSubscriptions
    from penstock.client.client import Client
    from penstock.client.compatibility import Compatibility, SchemaChange
    from penstock.client.consumer import Consumer
    from penstock.client.consuming import Consumed
    from penstock.client.event import Event
    from penstock.client.event_batch import EventBatch
    from penstock.client.event_types import PartitionOffsets
    from penstock.client.feed import Feed, Follow
    from penstock.client.idempotent_producer import IdempotentProducer
    from penstock.client.positions import AsyncCursorTable, CursorTable
    from penstock.client.producer_options import (
        CloseReport,
        PartitionPublishingOptions,
        PublishingProperties,
        PublishResult,
        Resolution,
        RetryPolicy,
    )
    from penstock.client.publishing import Published
    from penstock.client.replay import Replay, Replayed
    from penstock.client.subscription import (
        ParkedEvent,
        ParkedKey,
        ParkedKeyDetails,
        SubscribedPartition,
        Subscription,
        SubscriptionCursor,
    )
    from penstock.client.subscription_batch import SubscriptionBatch
    from penstock.client.subscription_stream import SubscriptionStream, UncommittedBatch
    from penstock.client.subscriptions import Subscriptions
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
    from penstock.wire.reader.discovery import Discovery, Partition
    from penstock.wire.reader.page import FeedEvent, Page
    from penstock.wire.reader.partitions import share
    from penstock.wire.reader.query import ALL_HEADERS
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "client.async_client": ["AsyncClient"],
            "client.async_consumer": ["AsyncConsumer"],
            "client.async_feed": ["AsyncFeed", "AsyncFollow"],
            "client.async_idempotent_producer": ["AsyncIdempotentProducer"],
            "client.async_subscription_stream": ["AsyncSubscriptionStream", "AsyncUncommittedBatch"],
            "client.async_subscriptions": ["AsyncSubscriptions"],
            "client.client": ["Client"],
            "client.compatibility": ["Compatibility", "SchemaChange"],
            "client.consumer": ["Consumer"],
            "client.consuming": ["Consumed"],
            "client.event": ["Event"],
            "client.event_batch": ["EventBatch"],
            "client.event_types": ["PartitionOffsets"],
            "client.feed": ["Feed", "Follow"],
            "client.idempotent_producer": ["IdempotentProducer"],
            "client.positions": ["AsyncCursorTable", "CursorTable"],
            "client.producer_options": [
                "CloseReport",
                "PartitionPublishingOptions",
                "PublishingProperties",
                "PublishResult",
                "Resolution",
                "RetryPolicy",
            ],
            "client.publishing": ["Published"],
            "client.replay": ["Replay", "Replayed"],
            "client.subscription": [
                "ParkedEvent",
                "ParkedKey",
                "ParkedKeyDetails",
                "SubscribedPartition",
                "Subscription",
                "SubscriptionCursor",
            ],
            "client.subscription_batch": ["SubscriptionBatch"],
            "client.subscription_stream": ["SubscriptionStream", "UncommittedBatch"],
            "client.subscriptions": ["Subscriptions"],
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
            "wire.reader.discovery": ["Discovery", "Partition"],
            "wire.reader.page": ["FeedEvent", "Page"],
            "wire.reader.partitions": ["share"],
            "wire.reader.query": ["ALL_HEADERS"],
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
