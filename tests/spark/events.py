"""Reads and removes the events of a feed without Spark."""

import sqlite3
from collections import Counter

from penstock.client import ALL_HEADERS, Client, FeedEvent
from penstock.testing.live_hub import LiveHub


def events_in(client: Client, event_type: str) -> list[FeedEvent]:
    """Return all events of a feed with their headers, those of a partition in their order."""
    reader = client.feed(event_type)
    cursors, found = reader.cursors(), list[FeedEvent]()
    while (page := reader.read(cursors, headers=[ALL_HEADERS])).events:
        found += page.events
        cursors = dict(page.cursors)
    return found


def numbers_in(client: Client, event_type: str) -> Counter[int]:
    """Return how often each number is in a feed."""
    return Counter(event.data["n"] for event in events_in(client, event_type))


def count_in(client: Client, event_type: str) -> int:
    """Return how many events a feed has had."""
    return sum(each.head for each in client.partitions(event_type))


def remove_before(hub: LiveHub, event_type: str, floor: int) -> None:
    """Remove the events before an offset of partition 0, as retention does."""
    database = sqlite3.connect(hub.database.removeprefix("sqlite:///"), isolation_level=None)
    try:
        find = "SELECT id FROM penstock_event_type WHERE name = ?"
        [partition] = database.execute(
            f"SELECT id FROM penstock_partition WHERE number = 0 AND event_type_id = ({find})", [event_type]
        ).fetchone()
        database.execute("BEGIN IMMEDIATE")
        database.execute("UPDATE penstock_partition SET floor = ? WHERE id = ?", [floor, partition])
        database.execute('DELETE FROM penstock_event WHERE partition_id = ? AND "offset" < ?', [partition, floor])
        database.execute("COMMIT")
    finally:
        database.close()
