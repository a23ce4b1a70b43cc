"""What readers cost that wait for events that do not come."""

import time
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple
from urllib.request import urlopen

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure
from bench.load.program import Program
from bench.logs import cursor_at, make_log
from bench.place import Place
from bench.servers import cpu_seconds, family_cpu_seconds, resident_bytes
from penstock.testing.live_hub import LiveHub

LOG_EVENTS = 1000
WARM_UP = 20
SETTLED_SECONDS = 1.0


class Cost(NamedTuple):
    """What the readers of one round cost."""

    percent: float
    """Of one core, in the hub."""
    percent_before: float
    """The same hub while nobody waits."""
    database_percent: float
    database_percent_before: float
    kilobytes: float
    """Of memory, for each."""


@figure("idle", "consumers")
def idle(place: Place, scale: Scale) -> Iterable[Row]:
    """2000 idle waiting readers."""
    yield from _compare(place, scale)


@figure("idle-event-sources", "consumers")
def idle_event_sources(place: Place, scale: Scale) -> Iterable[Row]:
    """2000 idle streams of server-sent events, with a heartbeat after 50 seconds, the default."""
    yield from _compare(place, scale, streams=True)


def _compare(place: Place, scale: Scale, *, streams: bool = False) -> Iterable[Row]:
    readers = 200 if scale.quick else 2000
    for kind in ("SQLite", "PostgreSQL"):
        costs = [_cost(place, scale, kind, readers, streams=streams) for _ in range(1 if scale.quick else 3)]
        half = {field: median(getattr(cost, field) for cost in costs) for field in Cost._fields}
        more = half["percent"] - half["percent_before"]
        if streams:
            remark = f"{half['percent']:.2f} % with them, {half['percent_before']:.2f} % with none"
            what = f"{kind}: processor time of the hub for {readers} streams"
            yield Row(what, f"{more:.2f} %", remark, more, Target("<", 1, "%"))
        else:
            remark = f"{half['percent_before']:.2f} % with none: {more:+.2f} %"
            what = f"{kind}: processor time of the hub with {readers} waiting"
            yield Row(what, f"{half['percent']:.2f} %", remark, half["percent"], Target("<", 1, "%"))
        if kind == "PostgreSQL":
            with_readers, none = half["database_percent"], half["database_percent_before"]
            what = f"{kind}: processor time of the database meanwhile"
            yield Row(what, f"{with_readers:.2f} %", f"{none:.2f} %", with_readers - none)
        kilobytes = half["kilobytes"]
        yield Row(f"{kind}: memory for each reader", f"{kilobytes:.0f} kB", "", kilobytes, Target("<", 100, "kB"))


def _cost(place: Place, scale: Scale, kind: str, readers: int, *, streams: bool) -> Cost:
    url = place.database(kind)
    make_log(url, LOG_EVENTS)
    seconds = 2.0 if scale.quick else 50.0 if streams else 20.0
    with (
        place.hub(url) as hub,
        Program("bench.load.idle", port=hub.port, feed=FEED, cursor=cursor_at(LOG_EVENTS), streams=streams) as load,
    ):
        load(readers=WARM_UP, wait=0)  # Brings the worker threads and their connections to life.
        before = resident_bytes(hub.pid)
        postmaster = place.cluster_pid if kind == "PostgreSQL" else None
        none = _percent(hub.pid, postmaster, seconds)
        load(readers=readers, wait=60)
        _wait_for(hub, readers)
        time.sleep(SETTLED_SECONDS)
        memory = resident_bytes(hub.pid) - before
        waiting = _percent(hub.pid, postmaster, seconds)
        _wait_for(hub, readers)  # None has left meanwhile.
    place.drop(url)
    return Cost(waiting[0], none[0], waiting[1], none[1], memory / 1000 / readers)


def _percent(pid: int, postmaster: int | None, seconds: float) -> tuple[float, float]:
    """Return what the process, and what the database's processes take of one core."""

    def taken() -> tuple[float, float]:
        return cpu_seconds(pid), family_cpu_seconds(postmaster) if postmaster else 0.0

    before = taken()
    time.sleep(seconds)
    after = taken()
    return 100 * (after[0] - before[0]) / seconds, 100 * (after[1] - before[1]) / seconds


def _wait_for(hub: LiveHub, readers: int) -> None:
    """Wait until so many wait."""
    deadline = time.monotonic() + 30
    while True:
        with urlopen(f"{hub.url}/metrics") as answer:
            text: str = answer.read().decode()
        waiting = float(text.partition("\npenstock_waiters ")[2].partition("\n")[0])
        if waiting == readers:
            return
        assert time.monotonic() < deadline, f"{waiting:.0f} of {readers} wait"
        time.sleep(0.05)
