"""How far the partitions of a stream go by now, and its being woken when they go further."""

from collections.abc import Callable, Sequence

from penstock.core.registry.event_type import Feed
from penstock.core.subscriptions.assignment import Place
from penstock.hub.registry import existing_feed
from penstock.hub.watch import Ticket, Watch
from penstock.storage.store import Head, Store


class Arrivals:
    """What one stream knows of its partitions' ends."""

    def __init__(self, store: Store, watch: Watch, woken: Callable[[], None]) -> None:
        """Begin without any; *woken* is called, from any thread, when a partition has gone further."""
        self._store = store
        self._watch = watch
        self._tell = woken
        self._feeds: dict[str, Feed] = {}
        self._partitions: dict[int, Place] = {}
        self._ends: dict[Place, int] = {}
        self._ticket = Ticket({}, self._woken)
        self._noted: dict[int, int] = {}

    def load(self, places: Sequence[Place]) -> dict[Place, Head]:
        """Look where the partitions of their event types begin and end, and remember the feeds."""
        found = {}
        if places:
            with self._store.read() as tx:
                for name in {name for name, _ in places}:
                    feed = self._feeds[name] = existing_feed(tx, name)
                    heads = tx.events.heads(feed.partition_ids)
                    for number, partition_id in enumerate(feed.partition_ids):
                        self._partitions[partition_id] = (name, number)
                        found[name, number] = heads[partition_id]
        return found

    def feed(self, event_type: str) -> Feed:
        """Return the feed of an event type that was loaded."""
        return self._feeds[event_type]

    def begin(self, place: Place, end: int) -> None:
        """Have a partition that was loaded, and that goes as far as *end*."""
        self._ends[place] = end

    def remove(self, place: Place) -> None:
        """Have it no longer."""
        self._ends.pop(place, None)

    def end(self, place: Place) -> int:
        """Return the offset behind the last event that is known; 0: the stream does not have that partition."""
        return self._ends.get(place, 0)

    def note(self) -> None:
        """Take note of how far the partitions go by now, as far as it was told."""
        if self._ticket.found == self._noted:
            return
        self._noted = dict(self._ticket.found)
        for partition_id, end in self._noted.items():
            place = self._partitions[partition_id]
            self._ends[place] = max(end, self._ends.get(place, 0))

    def wait(self) -> None:
        """Be woken for the partitions that the stream has now."""
        ends = {self._feeds[name].partition_ids[number]: end for (name, number), end in self._ends.items()}
        self.cancel()
        self._ticket = self._watch.wait(ends, self._woken)

    def cancel(self) -> None:
        """Be woken no more; harmless when repeated."""
        self._watch.cancel(self._ticket)

    def _woken(self) -> None:
        ticket = self._ticket
        ticket.offsets.update(dict(ticket.found))  # What was told once is not told again.
        self._tell()
