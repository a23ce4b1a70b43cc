"""Reads all that is in a feed."""

from typing import Any

from penstock.client import Client


def read_feed(client: Client, name: str, headers: str | list[str] = ()) -> list[Any]:
    """Return the events of a feed, partition after partition."""
    with client.feed(name) as feed:
        found: list[Any] = []
        for partition in feed.cursors():
            cursors = feed.cursors(partitions=[partition])
            while (page := feed.read(cursors, headers=headers)).events:
                cursors = page.cursors
                found += page.events
        return found
