"""Clients of a hub, and readers of feeds of any ZeroEventHub or FeedAPI server."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import export_lazily

if TYPE_CHECKING:
    from penstock.client.async_client import AsyncClient
    from penstock.client.client import Client
    from penstock.client.credentials import BearerToken, InsecureTransportWarning, TokenFile
    from penstock.client.http.exchanges import RetryPolicy
    from penstock.client.log.async_cursor_table import AsyncCursorTable
    from penstock.client.log.async_feed import AsyncFeed, AsyncFollow
    from penstock.client.log.cursor_table import CursorTable
    from penstock.client.log.feed import Feed, Follow
    from penstock.client.log.publishing import Event, Published
    from penstock.client.producers.async_producer import AsyncIdempotentProducer
    from penstock.client.producers.event_batch import EventBatch
    from penstock.client.producers.options import CloseReport, PartitionPublishingOptions, PublishResult, Resolution
    from penstock.client.producers.producer import IdempotentProducer
    from penstock.client.producers.replay import Replay, Replayed
    from penstock.client.registry import Compatibility, PartitionOffsets, PublishingProperties, SchemaChange
    from penstock.client.subscriptions.async_stream import AsyncSubscriptionStream, AsyncUncommittedBatch
    from penstock.client.subscriptions.model import (
        ParkedEvent,
        ParkedKey,
        ParkedKeyDetails,
        SubscribedPartition,
        Subscription,
        SubscriptionCursor,
    )
    from penstock.client.subscriptions.stream import SubscriptionStream, UncommittedBatch
    from penstock.client.subscriptions.stream_protocol import SubscriptionBatch
    from penstock.core.log.start import Start
    from penstock.wire.groups import (
        CommittedPosition,
        ConsumerGroup,
        ConsumerGroupDetails,
        GroupIntervention,
        GroupParkedStream,
        GroupPosition,
        NewParkedStream,
        NewPosition,
        ParkedStreamPlace,
        PositionReset,
        ResetPosition,
    )
    from penstock.wire.log.reader.pages import FeedEvent, Page
    from penstock.wire.log.reader.partitions import Discovery, Partition, share
    from penstock.wire.log.reader.protocol import ALL_HEADERS
else:
    __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "client.async_client": ["AsyncClient"],
            "client.client": ["Client"],
            "client.credentials": ["BearerToken", "InsecureTransportWarning", "TokenFile"],
            "client.http.exchanges": ["RetryPolicy"],
            "client.log.async_cursor_table": ["AsyncCursorTable"],
            "client.log.async_feed": ["AsyncFeed", "AsyncFollow"],
            "client.log.cursor_table": ["CursorTable"],
            "client.log.feed": ["Feed", "Follow"],
            "client.log.publishing": ["Event", "Published"],
            "client.producers.async_producer": ["AsyncIdempotentProducer"],
            "client.producers.event_batch": ["EventBatch"],
            "client.producers.options": [
                "CloseReport",
                "PartitionPublishingOptions",
                "PublishResult",
                "Resolution",
            ],
            "client.producers.producer": ["IdempotentProducer"],
            "client.producers.replay": ["Replay", "Replayed"],
            "client.registry": [
                "Compatibility",
                "PartitionOffsets",
                "PublishingProperties",
                "SchemaChange",
                "Start",
            ],
            "client.subscriptions.async_stream": ["AsyncSubscriptionStream", "AsyncUncommittedBatch"],
            "client.subscriptions.model": [
                "ParkedEvent",
                "ParkedKey",
                "ParkedKeyDetails",
                "SubscribedPartition",
                "Subscription",
                "SubscriptionCursor",
            ],
            "client.subscriptions.stream": ["SubscriptionStream", "UncommittedBatch"],
            "client.subscriptions.stream_protocol": ["SubscriptionBatch"],
            "core.log.start": ["Start"],
            "wire.groups": [
                "CommittedPosition",
                "ConsumerGroup",
                "ConsumerGroupDetails",
                "GroupIntervention",
                "GroupParkedStream",
                "GroupPosition",
                "NewParkedStream",
                "NewPosition",
                "ParkedStreamPlace",
                "PositionReset",
                "ResetPosition",
            ],
            "wire.log.reader.pages": ["FeedEvent", "Page"],
            "wire.log.reader.partitions": ["Discovery", "Partition", "share"],
            "wire.log.reader.protocol": ["ALL_HEADERS"],
        },
    )

__all__ = [
    "ALL_HEADERS",
    "AsyncClient",
    "AsyncCursorTable",
    "AsyncFeed",
    "AsyncFollow",
    "AsyncIdempotentProducer",
    "AsyncSubscriptionStream",
    "AsyncUncommittedBatch",
    "BearerToken",
    "Client",
    "CloseReport",
    "CommittedPosition",
    "Compatibility",
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
    "GroupParkedStream",
    "GroupPosition",
    "IdempotentProducer",
    "InsecureTransportWarning",
    "NewParkedStream",
    "NewPosition",
    "Page",
    "ParkedEvent",
    "ParkedKey",
    "ParkedKeyDetails",
    "ParkedStreamPlace",
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
    "Start",
    "SubscribedPartition",
    "Subscription",
    "SubscriptionBatch",
    "SubscriptionCursor",
    "SubscriptionStream",
    "TokenFile",
    "UncommittedBatch",
    "share",
]
