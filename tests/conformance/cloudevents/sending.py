"""CloudEvents sent to a feed and read from it, by HTTP alone."""

import json
from typing import Any

import httpx2

from tests.served import CLOUD_EVENTS, Served

STRUCTURED = "application/cloudevents+json"


def cloud_event(number: int = 1, **members: Any) -> dict[str, Any]:
    """Return a CloudEvent; *members* of None are left out."""
    given = {"specversion": "1.0", "id": str(number), "source": "/shop", "type": "shop.order", "data": {"id": number}}
    return {name: value for name, value in (given | members).items() if value is not None}


def publish(feed: Served, *events: dict[str, Any], **query: Any) -> httpx2.Response:
    """Publish *events* as a batch."""
    return feed.post(json.dumps(events).encode(), {"Content-Type": CLOUD_EVENTS}, **query)


def count_events(answer: httpx2.Response) -> list[dict[str, Any]]:
    """Return the CloudEvents of a page."""
    assert (answer.status_code, answer.headers["content-type"]) == (200, CLOUD_EVENTS), answer.text
    found: list[dict[str, Any]] = json.loads(answer.content)
    return found


def read(feed: Served, cursor: str = "_first", **arguments: Any) -> list[dict[str, Any]]:
    """Read the CloudEvents of a feed with one partition."""
    return count_events(feed.get(n=1, cursor0=cursor, sending={"Accept": CLOUD_EVENTS}, **arguments))
