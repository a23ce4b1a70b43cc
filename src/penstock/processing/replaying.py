"""Streams that were parked: of which something is wanted, and what is read again for those that are tried again."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.processing.checkpoints.checkpoint import Request
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.parked import Parked, Parking
from penstock.processing.sources.source import Want

REPLAY_EVENTS: Final = 10_000
"""How many events are read at once; those of streams that are not tried again are among them."""


class Replay(NamedTuple):
    """A page that is to be read again."""

    parked: Sequence[Parked]
    """For whom: all of them are read on from there."""
    want: Want

    @property
    def tranche(self) -> str:
        """Which tranche it is a page of."""
        return self.parked[0].tranche


def replays_of(engine: Engine, tranches: Collection[str]) -> list[Replay]:
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
    requests: Mapping[str, Request], parking: Parking, begun: Collection[str], there: Collection[str]
) -> set[str]:
    """Return of which parked streams something is wanted that is to be done now.

    Args:
        requests: What is wanted.
        parking: What is parked.
        begun: The tranches that are begun with. To begin with one is to forget what was heeded of it.
        there: Those that the source has.
    """
    known = {stream: parking.streams[stream] for stream in requests if stream in parking.streams and there}
    ready = (stream for stream, spans in known.items() if all(each in begun or each not in there for each in spans))
    return {stream for stream in ready if requests[stream] == "drop" or _may_be_tried(stream, parking, begun)}


def _may_be_tried(stream: str, parking: Parking, begun: Collection[str]) -> bool:
    # What was asked before a stream was parked anew has been done: it was tried.
    is_done = stream in parking.retried or parking.is_fresh(stream)
    return not is_done and next(iter(parking.streams[stream])) in begun


def _replay(waiting: Sequence[Parked], engine: Engine) -> Replay | None:
    """Return the page that is to be read for those who are *waiting* in one tranche; None: there is no room for it."""
    place, most = waiting[0], engine.rules.events_ahead
    held = engine.replaying(place.tranche)
    if held > most // 2:  # Else pages would be small, and many.
        return None
    together = [each for each in waiting if each.since == place.since]
    return Replay(together, Want(place.since, min(REPLAY_EVENTS, most - held)))
