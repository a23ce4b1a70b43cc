"""How soon a waiting reader has what was published."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from statistics import median, quantiles

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure
from bench.load.program import Program
from bench.logs import make_feed
from bench.place import Place
from penstock.testing.live_hub import LiveHub

DATABASES = ("SQLite", "PostgreSQL")
Producer = Callable[[LiveHub], Program]


@figure("latency", "consumers")
def latency(place: Place, scale: Scale) -> Iterable[Row]:
    """Publish to waiting reader at 200 events/s, over HTTP."""
    taken = _measure(place, scale, "publish_paced", per_second=200)
    for kind in DATABASES:
        targets = Target("<", 10, "ms"), Target("<", 50, "ms")
        yield from _rows(kind, "from sending to having the page", taken[kind], *targets)


@figure("outbox-latency", "consumers")
def outbox_latency(place: Place, scale: Scale) -> Iterable[Row]:
    """Outbox commit, from another process, to waiting reader, at 20 events/s."""
    taken = _measure(place, scale, "outbox_paced", per_second=20)
    for kind in DATABASES:
        targets = Target("<", 50, "ms"), None
        yield from _rows(kind, "from beginning the commit to having the page", taken[kind], *targets)


HUBS = 4


@figure("service-latency", "consumers")
def service_latency(place: Place, scale: Scale) -> Iterable[Row]:
    """Commits of a service to the outbox of a SQLite file on which four hubs publish without end."""
    url = place.database("SQLite")
    make_feed(url)
    with ExitStack() as stack:
        hubs = [stack.enter_context(place.hub(url)) for _ in range(HUBS)]
        service = stack.enter_context(Program("bench.load.outbox_paced", url=url, feed=FEED))
        count, per_second = int(100 * scale.seconds), 50.0
        for hub in hubs:
            flood = stack.enter_context(Program("bench.load.publish", port=hub.port, feed=FEED, batch=200))
            flood.start(seconds=3600)  # It is killed before.
        taken = service(first=0, count=count, per_second=per_second)["took_ms"]
    half, late = median(taken), quantiles(taken, n=100)[98]
    yield Row("median of a transaction", f"{half:.1f} ms", "", half, None)
    yield Row(f"99th percentile of {count}", f"{late:.1f} ms", "", late, Target("<", 500, "ms"))


def _measure(place: Place, scale: Scale, load: str, per_second: float) -> dict[str, list[float]]:
    """Return by database how many milliseconds each event took; the databases take turns."""
    taken: dict[str, list[float]] = {kind: [] for kind in DATABASES}
    for _ in range(1 if scale.quick else 3):
        for kind in DATABASES:
            url = place.database(kind)
            make_feed(url)
            with place.hub(url) as hub:
                over_http = {"port": hub.port} if load == "publish_paced" else {"url": url}
                with (
                    Program("bench.load.follow", port=hub.port, feed=FEED) as follower,
                    Program(f"bench.load.{load}", feed=FEED, **over_http) as producer,
                ):
                    count = int(per_second * scale.seconds * 4)
                    _follow(follower, producer, 0, int(per_second), per_second)  # Warms up.
                    taken[kind] += _follow(follower, producer, int(per_second), count, per_second)
            place.drop(url)
    return taken


def _follow(follower: Program, producer: Program, first: int, count: int, per_second: float) -> list[float]:
    follower.start(last=first + count - 1)
    sent = producer(first=first, count=count, per_second=per_second)["at"]
    seen = follower.result()["at"]
    missing = sent.keys() - seen.keys()
    assert not missing, f"events that never came: {sorted(missing)[:10]}"
    return [(seen[number] - at) / 1e6 for number, at in sent.items()]


def _rows(kind: str, what: str, taken: list[float], middle: Target, last: Target | None) -> Iterable[Row]:
    half, late = median(taken), quantiles(taken, n=100)[98]
    yield Row(f"{kind}: median {what}", f"{half:.1f} ms", "", half, middle)
    yield Row(f"{kind}: 99th percentile of {len(taken)} events", f"{late:.1f} ms", "", late, last)
