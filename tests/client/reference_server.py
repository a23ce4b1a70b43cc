"""A ZeroEventHub v1 server: the reference implementation's handler over lists in memory."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import zeroeventhub
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse


class ListReader:
    """Events of each partition in a list; a cursor is the number of events before it."""

    def __init__(self, partition_count: int) -> None:
        self.partitions: list[list[dict[str, Any]]] = [[] for _ in range(partition_count)]
        self.requests = 0

    def add(self, partition: int, *events: dict[str, Any]) -> None:
        """Append events to a partition."""
        self.partitions[partition].extend(events)

    async def get_data(
        self, cursors: Sequence[zeroeventhub.Cursor], headers: Sequence[str] | None, page_size: int | None
    ) -> AsyncGenerator[dict[str, Any], Any]:
        self.requests += 1
        size = 1000 if page_size is None else max(1, page_size // len(cursors))
        for asked in cursors:
            events = self.partitions[asked.partition_id]
            begin = {"_first": 0, "_last": len(events)}.get(asked.cursor)
            begin = int(asked.cursor) if begin is None else begin
            page = events[begin : begin + size]
            for event in page:
                line = {"partition": asked.partition_id, "data": event}
                yield line | ({"headers": {"ce_id": str(event.get("id"))}} if headers else {})
            yield {"partition": asked.partition_id, "cursor": str(begin + len(page))}


def reference_app(reader: ListReader) -> FastAPI:
    """Return the app that serves *reader* at /feed by the reference implementation's handler."""
    app = FastAPI()
    handler = zeroeventhub.ZeroEventHubFastApiHandler(reader, len(reader.partitions))

    @app.get("/feed")
    async def feed(request: Request) -> StreamingResponse:
        return handler.handle(request)

    return app
