"""Counts the streams in each state, and their waiting events."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.processing.engine.engine import Engine
from penstock.processing.engine.item import Item, events_of


class StateCount(NamedTuple):
    """The streams in one state."""

    streams: int
    events: int
    """Events that wait or are with handlers; those that wait behind an active call count as ready."""


def census(engine: Engine) -> dict[str, StateCount]:
    """Return the number of streams in each state.

    A handler works on an `active` stream and could begin with a `ready` one. A `waiting` one waits for its time, a
    `gapped` one for a missing index. A `parked` one is set aside, a `synced` one has nothing to do. The time it takes
    grows with the number of streams that have events to handle.
    """
    ready, streams = engine._ready, engine._streams
    active = engine.busy.active
    calling = sum(_count(call.events) for call in active.values())
    behind = sum(_count(streams[name].queue) for name in active if name in streams)
    could = sum(_count(each.queue) for line in (ready._urgent, ready._healthy, ready._troubled) for each in line)
    waiting = sum(_count(each.queue) for _, _, each in ready._held)
    gapped = engine.missing()
    spans = [span for found in engine.parking.streams.values() for span in found.values()]
    found = {
        "active": StateCount(len(active), calling),
        "ready": StateCount(len(ready), behind + could),
        "waiting": StateCount(len(ready._held), waiting),
        "gapped": StateCount(len(gapped), sum(_count(streams[name].queue) for name in gapped)),
        "parked": StateCount(len(engine.parking.streams), sum(span.events for span in spans)),
    }
    others = sum(each.streams for state, each in found.items() if state != "parked")
    return {**found, "synced": StateCount(max(0, len(streams) - others), 0)}


def _count(items: Sequence[Item]) -> int:
    """Return how many events *items* stand for. All of a processor are events, or all are spans."""
    return sum(map(events_of, items)) if items and hasattr(items[0], "events") else len(items)
