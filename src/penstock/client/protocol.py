"""Protocol of one hub, which the synchronous and the asynchronous client carry out."""

import time
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from penstock.client.groups import ConsumerGroups
from penstock.client.log.publishing import PublishProtocol
from penstock.client.registry import EventTypeProtocol, hub_address
from penstock.client.subscriptions.protocol import SubscriptionProtocol
from penstock.wire.arguments import check_seconds


class HubProtocol:
    """Protocol of the hub at *url*: its event types, consumer groups, subscriptions, and publishing.

    Args:
        url: The hub's address.
        retry_timeout: Seconds for which a request is retried, where that is safe.
    """

    def __init__(self, url: str, retry_timeout: float) -> None:
        check_seconds("retry_timeout", retry_timeout)
        self.url = url
        self.retry_timeout = retry_timeout
        self.event_types = EventTypeProtocol(url, retry_timeout=retry_timeout, clock=time.monotonic)
        self.consumer_groups = ConsumerGroups(url, retry_timeout=retry_timeout, clock=time.monotonic)
        self.subscriptions = SubscriptionProtocol(
            url, self.event_types, retry_timeout=retry_timeout, clock=time.monotonic
        )
        self.publishing = PublishProtocol(
            url,
            self.event_types,
            retry_timeout=retry_timeout,
            clock=time.monotonic,
            now=lambda: datetime.now(UTC),
            new_id=uuid4,
        )

    def feed_options(self, event_type: str, partition_count: int | None) -> dict[str, Any]:
        """Return the arguments of the feed of *event_type*: merged, or split into *partition_count* partitions."""
        known: dict[str, Any] = {} if partition_count is None else {"version": 1}
        return {
            "url": hub_address(self.url, "feeds", event_type),
            "partition_count": partition_count,
            "retry_timeout": self.retry_timeout,
            "merged": True,
            **known,
        }
