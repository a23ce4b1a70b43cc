"""A FeedAPI v2 server whose partitions split in both of FeedAPI's ways, and which fails on demand."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

Failure = Callable[[Request], Response]


class SplittingFeed:
    """Events with numbers of their own, over all partitions; a cursor is the number of the last event before it."""

    def __init__(self, *partitions: int, waits: bool = False) -> None:
        self.listing: dict[int, dict[str, Any]] = {number: {"id": str(number)} for number in partitions}
        self.events: list[tuple[int, int, Any]] = []
        """Partition, number, data."""
        self.generation = 1
        self.page_size = 3
        self.waits = waits
        self.waiting = threading.Event()
        """Set whenever a reader has begun to wait."""
        self.requests: list[dict[str, str]] = []
        self.failures: deque[Failure] = deque()

    def add(self, partition: int, *data: Any) -> None:
        """Append events to a partition that is open."""
        assert not self.listing[partition].get("closed")
        for each in data:
            self.events.append((partition, len(self.events) + 1, each))

    def continue_in(self, parent: int, *children: int) -> None:
        """Close *parent*; new events go to *children*, which start after it."""
        self.listing[parent]["closed"] = True
        for child in children:
            self.listing[child] = {"id": str(child), "startsAfterPartition": str(parent)}
        self.generation += 1

    def replace_by(self, parent: int, *children: int) -> None:
        """Distribute the whole history of *parent* over *children*, in turn."""
        ancestors = [str(parent), *self.listing[parent].get("cursorFromPartitions", [])]
        del self.listing[parent]
        for child in children:
            self.listing[child] = {"id": str(child), "cursorFromPartitions": ancestors}
        self.events = [
            (children[number % len(children)] if partition == parent else partition, number, data)
            for partition, number, data in self.events
        ]
        self.generation += 1

    @property
    def token(self) -> str:
        """The token of this state of the partitions."""
        return f"generation {self.generation}"

    async def discover(self, _: Request) -> Response:
        self.requests.append({})
        return JSONResponse(
            {"token": self.token, "partitions": list(self.listing.values()), "exactlyOnce": True, "newField": [1]}
        )

    async def read(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.requests.append(asked)
        if self.failures:
            return self.failures.popleft()(request)
        if asked["token"] != self.token:
            return PlainTextResponse("discover again", 409)
        partition, cursor = int(asked["partition"]), asked["cursor"]
        after = {"_first": 0, "_last": len(self.events)}.get(cursor)
        after = int(cursor) if after is None else after
        page = self.page(partition, after)
        while self.waits and not page and not await request.is_disconnected() and asked["token"] == self.token:
            self.waiting.set()
            await asyncio.sleep(0.01)
            page = self.page(partition, after)
        lines = [{"kind": "not known", "partition": ["odd"]}, *({"data": data} for _, data in page)]
        lines.append({"cursor": str(page[-1][0] if page else after)})
        body = "\n".join(json.dumps(line) for line in lines) + "\n"
        return Response(body, media_type="application/x-ndjson")

    def page(self, partition: int, after: int) -> list[tuple[int, Any]]:
        """Return the next events of a partition."""
        found = [(number, data) for home, number, data in self.events if home == partition and number > after]
        return found[: self.page_size]


def splitting_app(feed: SplittingFeed) -> Starlette:
    """Return the app that serves *feed* at /feed."""
    return Starlette(routes=[Route("/feed", feed.discover), Route("/feed/events", feed.read)])
