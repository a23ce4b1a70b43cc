"""Mirrors a stream's progress to the hub as a consumer group, and applies resets of that group.

Spark's checkpoint is the authority; the hub has a copy of it for operators. An operator who resets the group moves the
stream. The hub numbers these resets, and each offset in Spark's checkpoint has the number of the last reset applied to
it: so each reset is applied once, also after a restart of the query.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from penstock.errors import UnusablePosition
from penstock.spark.offsets import FeedPlace

LOOK_INTERVAL: Final = 1.0
"""How often it is looked for resets, and how often at most a stream that is behind tells its progress."""
_log: Final = logging.getLogger("penstock.spark")


class Reset(NamedTuple):
    """A reset of a position of the group by an operator."""

    id: int
    event_type: str
    partition: int
    epoch: int
    offset: int


class GroupClient(Protocol):
    """A consumer group at a hub."""

    def resets(self, after: int) -> list[Reset]:
        """Return the resets that came after the one of that number, the newest first."""

    def commit(self, places: Mapping[str, FeedPlace]) -> None:
        """Store positions, whatever stands there."""


class Mirror:
    """The mirror of one query."""

    def __init__(self, group: GroupClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._group = group
        self._clock = clock
        self._looked_at = self._told_at = float("-inf")
        self._told: Mapping[str, FeedPlace] = {}
        self._heeded: int | None = None

    def newest(self) -> int:
        """Return the number of the newest reset, before which none counts for a new query; 0: there is none."""
        return max((reset.id for reset in self._group.resets(0)), default=0)

    def rewound(self, start: Mapping[str, FeedPlace]) -> tuple[dict[str, FeedPlace], int]:
        """Return the places that were reset since *start*, and the number of the last reset that they include."""
        newest = find_newest_reset(start)
        if newest is None:  # The checkpoint is from before the query had a group.
            newest = self.newest() if self._heeded is None else self._heeded
        if self._clock() < self._looked_at + LOOK_INTERVAL and newest == self._heeded:
            return {}, newest
        resets = self._group.resets(newest)
        self._looked_at, self._heeded = self._clock(), newest
        found: dict[str, FeedPlace] = {}
        for reset in reversed(resets):
            place = found.get(reset.event_type) or start.get(reset.event_type)
            if place is None or reset.epoch != place.epoch or reset.partition >= len(place.offsets):
                continue  # It is of another life of the feed, or of one that is not read here.
            offsets = [*place.offsets]
            offsets[reset.partition] = reset.offset
            found[reset.event_type] = FeedPlace(place.epoch, tuple(offsets))
        for event_type, place in found.items():
            _log.warning("the consumer group was reset: %r goes on at %s", event_type, list(place.offsets))
        return found, max((reset.id for reset in resets), default=newest)

    def tell(self, places: Mapping[str, FeedPlace], *, at_once: bool) -> None:
        """Tell the hub that *places* have been reached; unless it is to know *at_once*, not all the time."""
        if places == self._told or not (at_once or self._clock() >= self._told_at + LOOK_INTERVAL):
            return
        try:
            self._group.commit(places)
        except UnusablePosition as error:
            _log.warning("the consumer group is not shown where the query is: %s", error.detail)
        self._told, self._told_at = places, self._clock()


def find_newest_reset(places: Mapping[str, FeedPlace]) -> int | None:
    """Return the number of the newest reset that is heeded at *places*; None: none ever was looked for."""
    return max((place.reset for place in places.values() if place.reset is not None), default=None)
