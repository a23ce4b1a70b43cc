"""Reads all that is in a feed."""

from typing import Any

from penstock.client import FIRST, Client


def read_feed(client: Client, name: str, headers: str | list[str] = ()) -> list[Any]:
    """Return the events of a feed, partition after partition."""
    with client.feed(name) as feed:
        found: list[Any] = []
        for partition in feed.cursors():
            cursor = FIRST
            while (page := feed.read({partition: cursor}, headers=headers)).events:
                cursor = page.cursors[partition]
                found += page.events
        return found
