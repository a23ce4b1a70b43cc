"""Keys whose events wait since one could not be processed: looked at, sent again, skipped (design 5.3)."""

from collections.abc import Collection, Sequence
from itertools import count
from typing import Final

from penstock.errors import ParkedNotFound
from penstock.hub.clock import Clock
from penstock.hub.registry import existing_feed
from penstock.hub.subscriptions import existing
from penstock.storage.groups import Intervention
from penstock.storage.parked import Parked
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import Slot

SKIPPED: Final = "skipped"
PASSED_MAX: Final = 10_000
"""So many events of a key are passed over at once."""


class Parking:
    """The parked keys of one store's subscriptions."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def list(self, id: str) -> Sequence[Parked]:
        """Return the parked keys of a subscription, those first that were parked first.

        Raises:
            SubscriptionNotFound: there is none.
        """
        with self._store.read() as tx:
            existing(id, tx.subscriptions.find(id))
            return tx.parked.list(id)

    def find(self, id: str, parked_id: int) -> Parked:
        """Return a parked key.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is none.
        """
        return _one(id, parked_id, self.list(id))

    def events(self, parked: Parked, limit: int) -> Sequence[tuple[int, bytes]]:
        """Return the offsets and the data of up to *limit* of its first events, as far as they are still there."""
        name, number = parked.place
        with self._store.read() as tx:
            partition_id = existing_feed(tx, name).partition_ids[number]
            offsets = tx.parked.offsets(parked.id, after=parked.first - 1, limit=limit)
            columns = [tx.events.columns(partition_id, offset, offset + 1) for offset in offsets]
        return [(offset, each.data) for offset, each in zip(offsets, columns, strict=True) if each.rows]

    def retry(self, id: str, parked_id: int | None = None) -> int:
        """Have a parked key, None: all, sent again to whoever has its partition; return how many there are.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is none.
        """
        with self._store.write() as tx:
            wanted = self._wanted(tx, id, parked_id)
            tx.parked.retry([each.id for each in wanted])
            tx.subscriptions.revise(id)
        return len(wanted)

    def skip(self, id: str, parked_id: int, reason: str) -> None:
        """Have the events of a parked key wait no longer that lie behind the position of its partition.

        They stay in the log, and are not sent again. Those ahead of it, behind events that are not committed yet, are
        sent once it has passed them, as if the key were retried: nobody can tell whether a stream has left them out.

        Raises:
            SubscriptionNotFound, ParkedNotFound: there is none.
        """
        with self._store.write() as tx:
            [parked] = self._wanted(tx, id, parked_id)
            slot = next(slot for slot in tx.subscriptions.slots(id) if slot.place == parked.place)
            position = _position(tx, id, slot)
            tx.subscriptions.move(id, {slot.place: position}, self._clock())
            tx.parked.acknowledge(parked.id, position - 1)
            tx.parked.retry([parked.id])
            name, number = parked.place
            said = f"{reason} (key {parked.key})" if parked.key is not None else reason
            end = max(parked.first, min(parked.last + 1, position))
            done = Intervention(name, "", number, SKIPPED, slot.epoch, parked.first, end, said, self._clock())
            tx.groups.intervene(id, [done])
            tx.subscriptions.revise(id)

    def _wanted(self, tx: Tx, id: str, parked_id: int | None) -> Collection[Parked]:
        existing(id, tx.subscriptions.lock(id))
        found = tx.parked.list(id)
        return found if parked_id is None else [_one(id, parked_id, found)]


def _position(tx: Tx, id: str, slot: Slot) -> int:
    """Return the position of a partition, behind those events from there on that wait: streams pass over them."""
    keys = [each.id for each in tx.parked.list(id, counted=False) if each.place == slot.place]
    waiting = {at for each in keys for at in tx.parked.offsets(each, after=slot.offset - 1, limit=PASSED_MAX)}
    return next(offset for offset in count(slot.offset) if offset not in waiting)


def _one(id: str, parked_id: int, found: Sequence[Parked]) -> Parked:
    for each in found:
        if each.id == parked_id:
            return each
    raise ParkedNotFound(subscription=id, parked=parked_id)
