"""Batches of a subscription, as if a stream had been sent them."""

from typing import Any

import msgspec

from penstock.client.subscriptions.stream_protocol import SubscriptionBatch
from penstock.wire.subscriptions import BATCHES, BatchLine


def line(partition: int = 0, last: int = 0, count: int = 1, *, event_type: str = "a.b", token: str = "t") -> BatchLine:
    """Return the line of a batch of *count* events, up to the offset *last*."""
    return BATCHES.decode(text(partition, last, count, event_type=event_type, token=token))


def text(
    partition: int = 0,
    last: int = 0,
    count: int = 1,
    *,
    event_type: str = "a.b",
    token: str = "t",
    debug: str | None = None,
) -> bytes:
    """Return the same line as a hub writes it; without events, where *count* is 0."""
    found: dict[str, Any] = {
        "cursor": {
            "partition": str(partition),
            "offset": f"001-0001-{last:018d}",
            "event_type": event_type,
            "cursor_token": token,
        }
    }
    if count:
        found["events"] = [{"n": number} for number in range(last - count + 1, last + 1)]
    if debug is not None:
        found["info"] = {"debug": debug}
    return msgspec.json.encode(found) + b"\n"


def batch(
    stream: str = "s1", partition: int = 0, last: int = 0, count: int = 1, **others: Any
) -> SubscriptionBatch[Any]:
    """Return a batch that a stream was sent."""
    return SubscriptionBatch(stream, line(partition, last, count, **others))
