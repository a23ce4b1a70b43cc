"""Event types: created, listed, dropped; and remembered, so that a publish need not ask the database."""

from collections.abc import Sequence
from typing import Any

from penstock.core.event_type import EventType, Feed
from penstock.errors import EventTypeNotFound
from penstock.hub.clock import Clock
from penstock.storage.store import Store


class Registry:
    """The event types of one store.

    What it remembers may be out of date, since other processes change event types too: an append notices by the
    revision, a read looks anew.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, Feed] = {}

    def create(self, definition: Any) -> None:
        """Create the event type that *definition* describes in Nakadi's shape.

        Raises:
            InvalidEventType: names the field and the rule.
            EventTypeExists: the name is taken.
        """
        event_type = EventType.parse(definition)
        with self._store.write() as tx:
            tx.feeds.insert(event_type, self._clock())

    def list(self) -> Sequence[Feed]:
        """Return all event types' feeds, sorted by name."""
        with self._store.read() as tx:
            return tx.feeds.list()

    def load(self, name: str) -> Feed:
        """Return the feed as the store has it now.

        Raises:
            EventTypeNotFound: there is none.
        """
        with self._store.read() as tx:
            feed = tx.feeds.find(name)
        return self.remember(name, feed)

    def remember(self, name: str, feed: Feed | None) -> Feed:
        """Take note of what a look has found under *name*, and return it.

        Raises:
            EventTypeNotFound: the look has found nothing.
        """
        if feed is None:
            self._known.pop(name, None)
            raise EventTypeNotFound(event_type=name)
        self._known[name] = feed
        return feed

    def recall(self, name: str) -> Feed:
        """Return the feed as it was when last seen; `load` it if it never was."""
        return self._known.get(name) or self.load(name)

    def restored(self) -> int:
        """Raise every feed's epoch, so that no cursor into what the backup did not have is taken; return how many."""
        self._known.clear()
        with self._store.write() as tx:
            return tx.feeds.raise_epochs()

    def knows(self, name: str) -> bool:
        """Tell whether `recall` would answer without asking the store."""
        return name in self._known

    def delete(self, name: str) -> None:
        """Drop the event type and all its events.

        Raises:
            EventTypeNotFound: there is none.
        """
        self._known.pop(name, None)
        with self._store.write() as tx:
            if not tx.feeds.delete(name):
                raise EventTypeNotFound(event_type=name)
