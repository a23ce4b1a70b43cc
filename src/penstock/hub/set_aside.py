"""The parked keys of the partitions that a stream has: their events are set aside, and sent again when asked for."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from penstock.core.subscriptions.assignment import ParkedSpan, Place
from penstock.core.subscriptions.delivery import Batch, Delivery, Read
from penstock.hub.read import Reading
from penstock.hub.rows import Reads, Rows, take
from penstock.hub.sessions import Sessions
from penstock.storage.parked import Parked

RESENT_MAX: Final = 100
"""So many parked events are sent again at once."""


class SetAside:
    """What one stream knows of parked keys."""

    def __init__(self, sessions: Sessions, subscription_id: str, session_id: str, batch_limit: int) -> None:
        self._sessions = sessions
        self._subscription_id = subscription_id
        self._session_id = session_id
        self._limit = min(RESENT_MAX, batch_limit)
        self._ids: dict[Place, dict[bytes, int]] = {}
        self._asked: list[Parked] = []
        """Keys whose events are to be sent again."""

    def update(self, parked: Sequence[Parked], own: Collection[Place], delivery: Delivery, now: float) -> None:
        """Take note of what a look has found; what was sent again may be committed by now."""
        self._ids = {}
        known = {each.id: each for each in parked}
        for each in parked:
            if each.place in own and each.key is not None:
                self._ids.setdefault(each.place, {})[each.key.encode()] = each.id
        for parked_id, span in delivery.resent.items():
            if parked_id not in known or known[parked_id].first > span.last:
                delivery.acknowledge(parked_id, now)
        resent = delivery.resent
        self._asked = [each for each in parked if each.is_retried and each.place in own and each.id not in resent]

    @property
    def asked(self) -> bool:
        """Whether events are to be sent again."""
        return bool(self._asked)

    def next(self, delivery: Delivery) -> Parked | None:
        """Return a key whose events can be sent again now: those that the partition's position has passed.

        What lies before it, committed or not, would be read again by whoever has the partition next.
        """
        if not self._asked:
            return None
        return next((each for each in self._asked if each.first < delivery.position(each.place)), None)

    def waits_in(self, place: Place) -> bool:
        """Tell whether any key of a partition waits: its events have to be looked at one by one."""
        return place in self._ids

    def sifted(self, reads: Reads, place: Place, reading: Reading, *, timed: bool) -> tuple[Read | None, bool]:
        """Read the next chunk, each event of which is looked at, without those whose keys wait; None at the end.

        Told besides whether a key waits no longer: see `kept`.

        Raises:
            CursorExpired: retention has removed what would be read.
            DatabaseUnavailable: it could not be read, or it could not be recorded what waits.
        """
        track = reading.tracks[0]
        chunk = reads.next_columns(reading, track)
        if chunk is None:
            return None, False
        rows = Rows(chunk)
        kept, knows_better = self.kept(place, chunk.range.start, rows, rows.kept(reading, track))
        return take(chunk, rows, track, kept, timed=timed), knows_better

    def kept(self, place: Place, start: int, rows: Rows, kept: Sequence[bool]) -> tuple[Sequence[bool], bool]:
        """Return which of the events *kept* so far are to be sent, having let those wait whose keys do.

        Told besides whether a key waits no longer, so that it is time for another look.

        Raises:
            DatabaseUnavailable: it could not be recorded.
        """
        waiting = self._ids.get(place, {})
        found: dict[int, list[int]] = {}
        ids = []
        for offset, (key, keep) in enumerate(zip(rows.keys, kept, strict=True), start):
            parked_id = waiting.get(key) if keep and key is not None else None
            ids.append(parked_id)
            if parked_id is not None:
                found.setdefault(parked_id, []).append(offset)
        if not found:
            return kept, False
        still = self._sessions.set_aside(self._subscription_id, self._session_id, found)
        return [keep and each not in still for keep, each in zip(kept, ids, strict=True)], len(still) < len(found)

    def resends(self, delivery: Delivery, clock: Callable[[], float]) -> Iterator[Batch]:
        """Yield the batches in which events of parked keys are sent again.

        Raises:
            DatabaseUnavailable: they could not be read; they are sent later.
        """
        while parked := self.next(delivery):
            below = delivery.position(parked.place)
            offsets, events = self._sessions.parked_events(self._subscription_id, parked, below, self._limit)
            self._asked.remove(parked)
            if events and not delivery.is_withdrawn(parked.place):
                yield delivery.resend(parked.place, ParkedSpan(parked.id, offsets[-1]), events, offsets, clock())
