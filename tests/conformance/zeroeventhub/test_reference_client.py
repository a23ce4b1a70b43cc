"""The client that the authors of ZeroEventHub publish reads our feeds."""

import asyncio

import httpx
import httpx2
from zeroeventhub import ALL_HEADERS, FIRST_CURSOR, Client, Cursor, Event

from tests.served import Served, create


async def collect(url: str, partitions: int, cursors: list[Cursor]) -> tuple[list[Event], list[Cursor]]:
    async with httpx.AsyncClient() as session:
        client = Client(url, partitions, session)
        found = [each async for each in client.fetch_events(cursors, 1000, ALL_HEADERS)]
    return [e for e in found if isinstance(e, Event)], [c for c in found if isinstance(c, Cursor)]


def read(feed: Served, cursors: list[Cursor]) -> tuple[list[Event], list[Cursor]]:
    url = str(feed.http.base_url.join(feed.path))
    return asyncio.run(collect(url, feed.partitions, cursors))


def test_reference_client_reads_events_headers_and_checkpoints(http: httpx2.Client) -> None:
    feed = create(http, 4)
    feed.publish_lines({"data": {"id": i}, "partition": i % 4, "headers": {"mine": "yes"}} for i in range(10))
    events, cursors = read(feed, [Cursor(p, FIRST_CURSOR) for p in range(4)])
    assert sorted(event.data["id"] for event in events) == list(range(10))
    assert all(event.headers is not None and event.headers["mine"] == "yes" for event in events)
    assert {cursor.partition_id for cursor in cursors} == {0, 1, 2, 3}
    feed.publish_ids([99], partition=1)
    later, _ = read(feed, cursors)
    assert [event.data["id"] for event in later] == [99]
