"""Streams that were parked: of which something is wanted, and what is read again for those that are tried again."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.processing.checkpoints.checkpoint import Request
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.parking import Parked, Parking, Place
from penstock.processing.sources.source import Want

REPLAY_EVENTS: Final = 10_000
"""How many events are read at once; those of streams that are not tried again are among them."""


class PageReplay(NamedTuple):
    """A page that is to be read again."""

    parked: Sequence[Parked]
    """For whom: all of them are read on from there."""
    want: Want

    @property
    def tranche(self) -> str:
        """Which tranche it is a page of."""
        return self.parked[0].tranche


def replays_of(engine: Engine, tranches: Collection[str]) -> list[PageReplay]:
    """Return what is to be read again now, of these *tranches*.

    Of each that is one page, for the stream that has waited longest and all others that are read on from there. Of what
    was read again as many events are held as may be read ahead, beside those that are.
    """
    asked: defaultdict[str, list[Parked]] = defaultdict(list)
    for parked in engine.replays() if engine.parking.retried else ():
        if parked.tranche in tranches:
            asked[parked.tranche].append(parked)
    found = [_replay(waiting, engine) for waiting in asked.values()]
    return [replay for replay in found if replay is not None]


def news_of(
    requests: Mapping[Place, Request], parking: Parking, begun: Collection[str], there: Collection[str]
) -> dict[str, Request]:
    """Return of which parked streams something is wanted that is to be done now, and what.

    Of one that is parked in several tranches it counts what is wanted of the first: of others it may be left over.

    Args:
        requests: What is wanted.
        parking: What is parked.
        begun: The tranches that are begun with. To begin with one is to forget what was heeded of it.
        there: Those that the source has.
    """
    known = {place: parking.streams.get(place[0], {}) for place in requests} if there else {}
    first = {place: spans for place, spans in known.items() if place[1] == next(iter(spans), None)}
    ready = (place for place, spans in first.items() if all(each in begun or each not in there for each in spans))
    return {
        stream: requests[stream, tranche]
        for stream, tranche in ready
        if requests[stream, tranche] == "drop" or not _was_tried(stream, parking)
    }


def _was_tried(stream: str, parking: Parking) -> bool:
    # What was asked before a stream was parked anew has been done.
    return stream in parking.retried or parking.is_fresh(stream)


def _replay(waiting: Sequence[Parked], engine: Engine) -> PageReplay | None:
    """Return the page that is to be read for those who are *waiting* in one tranche; None: there is no room for it."""
    place, most = waiting[0], engine.rules.events_ahead
    left = most - engine.replaying(place.tranche)
    if left < most - most // 2:  # Else pages would be small, and many.
        if not engine.parking.is_searched(place.stream):
            return None
        left = most  # What is held may wait for what is in the next page.
    together = [each for each in waiting if each.since == place.since]
    return PageReplay(together, Want(place.since, min(REPLAY_EVENTS, left)))
