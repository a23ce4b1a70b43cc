"""Consumer groups: who there is, how far behind each is, and the cursors of ZeroEventHub's cursor sets."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

from penstock.core.groups import CURSOR_SET, SUBSCRIPTION, Behind, Standing, behind, is_group_name, slice_of
from penstock.core.log.cursor import Cursor, View, check_view, feed_mark
from penstock.core.registry.event_type import Feed
from penstock.errors import CursorSetNotFound, DatabaseUnavailable, GroupKindDiffers, GroupNotFound, OutcomeUnknown
from penstock.hub.clock import Clock
from penstock.hub.registry import existing_feed
from penstock.storage.groups import Intervention, Listed, Which
from penstock.storage.store import Position, Store


class Known(NamedTuple):
    """A consumer group, and how far it is behind."""

    listed: Listed
    behind: Behind | None
    """None: it is a subscription that has not begun."""
    standings: Sequence[Standing]
    """Sorted by source, slice and tranche."""
    at: int
    """When that was so."""


class Groups:
    """The consumer groups of one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def store_cursors(self, feed: Feed, name: str, cursors: Sequence[tuple[View, Mapping[int, int]]]) -> None:
        """Keep, decoded, what a read was asked with: the places of everything before it have been processed.

        Raises:
            GroupKindDiffers: the name is that of a consumer group of another kind.
            DatabaseUnavailable: they may have been kept all the same; to keep them again does no harm.
        """
        now = self._clock()
        places = sorted(((slice_of(view), offsets) for view, offsets in cursors), key=itemgetter(0))
        try:
            with self._store.write() as tx:
                for place, offsets in places:
                    positions = [Position(tranche, feed.epoch, offset) for tranche, offset in offsets.items()]
                    kind = tx.positions.store(name, feed.name, place, positions, kind=CURSOR_SET, at=now)
                    if kind != CURSOR_SET:
                        raise GroupKindDiffers(group=name, kind=kind, reason="no cursors are kept under its name")
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
                positions = tx.positions.find(name, event_type, slice_of(view))
                if not positions:
                    raise CursorSetNotFound(event_type=event_type, cursorset=name, n=n, partition=partition)
                found[partition] = _cursor(feed, view, positions)
        return found

    def list(self, which: Which, limit: int) -> Sequence[Listed]:
        """Return up to *limit* groups that are such, sorted by name.

        Raises:
            EventTypeNotFound: their event type is none.
        """
        with self._store.read() as tx:
            if which.source is not None:
                existing_feed(tx, which.source)
            return tx.groups.list(which, limit)

    def find(self, name: str) -> Listed:
        """Return the group of that name.

        Raises:
            GroupNotFound: there is none.
        """
        if is_group_name(name):
            with self._store.read() as tx:
                found = tx.groups.find(name)
            if found is not None:
                return found
        raise GroupNotFound(group=name)

    def look(self, groups: Sequence[Listed]) -> Sequence[Known]:
        """Return how far each is behind, in one query however many they are; what the outbox holds does not count."""
        with self._store.read() as tx:
            found = tx.groups.standings([each.name for each in groups])
        now = self._clock()
        standings = {name: list(own) for name, own in groupby(found, attrgetter("group"))}
        return [_known(each, standings.get(each.name, []), now) for each in groups]

    def history(self, name: str, *, before: int | None, limit: int) -> Sequence[Intervention]:
        """Return up to *limit* of what was done to a group, the newest first: what came before the one of that id.

        Raises:
            GroupNotFound: there is none.
        """
        self.find(name)
        with self._store.read() as tx:
            return tx.groups.history(name, before=before, limit=limit)

    def delete(self, name: str) -> None:
        """Forget a group with its positions.

        Raises:
            GroupNotFound: there is none.
            GroupKindDiffers: it is a subscription, and deleted as such.
        """
        self.find(name)
        with self._store.write() as tx:
            kind = tx.groups.lock(name)
            if kind is None:
                raise GroupNotFound(group=name)
            if kind == SUBSCRIPTION:
                raise GroupKindDiffers(group=name, kind=kind, reason=f"DELETE /subscriptions/{name} deletes it")
            tx.groups.delete(name)


def _known(listed: Listed, standings: Sequence[Standing], now: int) -> Known:
    has_begun = listed.kind != SUBSCRIPTION or bool(standings)
    return Known(listed, behind(standings, now) if has_begun else None, standings, now)


def _cursor(feed: Feed, view: View, positions: Mapping[int, Position]) -> str:
    epochs = {position.epoch for position in positions.values()}
    places = tuple(positions[physical].offset if physical in positions else 0 for physical in view.physical)
    return Cursor(feed_mark(feed.name), min(epochs), view, places).encode()
