"""Consumer groups: how far each has come, kept by the hub. So far one kind: ZeroEventHub's cursor sets."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Final

from penstock.core.cursor import Cursor, View, check_view, feed_mark
from penstock.core.event_type import Feed
from penstock.errors import CursorSetNotFound, DatabaseUnavailable, OutcomeUnknown
from penstock.hub.clock import Clock
from penstock.hub.registry import existing_feed
from penstock.storage.store import Group, Position, Store

CURSOR_SET: Final = "cursorset"


class Groups:
    """The positions of one store's consumer groups."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def store_cursors(self, feed: Feed, name: str, cursors: Sequence[tuple[View, Mapping[int, int]]]) -> None:
        """Keep, decoded, what a read was asked with: the places of everything before it have been processed.

        Raises:
            DatabaseUnavailable: they may have been kept all the same; to keep them again does no harm.
        """
        now = self._clock()
        places = sorted(((_slice(view), offsets) for view, offsets in cursors), key=itemgetter(0))
        try:
            with self._store.write() as tx:
                for place, offsets in places:
                    positions = [Position(tranche, feed.epoch, offset) for tranche, offset in offsets.items()]
                    tx.positions.store(name, feed.name, place, positions, kind=CURSOR_SET, at=now)
        except OutcomeUnknown as error:
            raise DatabaseUnavailable(reason=error.fields["reason"], retry_after=1) from error

    def resume(self, event_type: str, name: str, n: int, partitions: Sequence[int]) -> dict[int, str]:
        """Return the cursors that were last stored under *name*, by partition of the view at *n*.

        Raises:
            EventTypeNotFound, BadPartitionCount: there is no such feed, or it cannot be seen so.
            CursorSetNotFound: nothing is stored for one of the partitions.
        """
        with self._store.read() as tx:
            feed = existing_feed(tx, event_type)
            check_view(n, feed.partition_count)
            found = {}
            for partition in partitions:
                view = View(n, partition, feed.partition_count)
                positions = tx.positions.find(name, event_type, _slice(view))
                if not positions:
                    raise CursorSetNotFound(event_type=event_type, cursorset=name, n=n, partition=partition)
                found[partition] = _cursor(feed, view, positions)
        return found

    def list(self, event_type: str | None) -> Sequence[Group]:
        """Return the groups that have positions in that event type's feed (None: all groups), sorted by name.

        Raises:
            EventTypeNotFound: there is none of that name.
        """
        with self._store.read() as tx:
            if event_type is not None:
                existing_feed(tx, event_type)
            return tx.positions.groups(event_type)


def _slice(view: View) -> str:
    return f"{view.n}/{view.partition}"


def _cursor(feed: Feed, view: View, positions: Mapping[int, Position]) -> str:
    epochs = {position.epoch for position in positions.values()}
    places = tuple(positions[physical].offset if physical in positions else 0 for physical in view.physical)
    return Cursor(feed_mark(feed.name), min(epochs), view, places).encode()
