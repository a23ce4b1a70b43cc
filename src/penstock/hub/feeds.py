"""Look up the feed of an event type in a transaction."""

from penstock.core.registry.event_type import StoredFeed
from penstock.errors import EventTypeNotFound
from penstock.storage.store import Tx


def existing_feed(tx: Tx, name: str) -> StoredFeed:
    """Return the feed of that name, or raise EventTypeNotFound."""
    feed = tx.feeds.find(name)
    if feed is None:
        raise EventTypeNotFound(event_type=name)
    return feed
