"""How many reads of events reach the primary while a replica on this machine serves the rest."""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import httpx2

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.feed_read import rate_of
from bench.load.program import Program
from bench.logs import make_log
from bench.measure import in_turn
from bench.place import Place
from penstock.testing.live_hub import LiveHub, live_hub
from tests.promises.scene import until
from tests.standby import Standby

PAGE = 1_000
BATCH = 50
BATCHES_PER_SECOND = 20.0


class Chunks(NamedTuple):
    """The number of chunks that a hub has read."""

    primary: float
    all: float


@figure("replicas", "reading", asked_for=True)
def replicas(place: Place, scale: Scale) -> Iterable[Row]:
    """Share of the reads that reach the primary while a replica serves the rest, on one machine; by name only."""
    url = place.postgres()
    make_log(url, scale.events)
    with ExitStack() as stack:
        standby = stack.enter_context(Standby(place.cluster))
        options = ["--replica", standby.url(url.rpartition("/")[2])]
        hub = stack.enter_context(live_hub(url, log=place.log, options=options))
        plain = stack.enter_context(place.hub(url))
        http = stack.enter_context(httpx2.Client(base_url=hub.url, timeout=60.0))
        standby.catch_up()
        until(lambda: "penstock_replica_up" in metrics(http) and "} 1.0" in metrics(http), "the replica is used")

        given = {"feed": FEED, "form": "v1", "page": PAGE, "events": scale.events, "first": "_first"}
        sides = {
            name: rate_of(stack.enter_context(Program("bench.load.read", port=each.port, **given)), scale)
            for name, each in (("replica", hub), ("primary", plain))
        }
        before = count_chunks(http)
        rounds = in_turn(sides, scale.rounds)
        yield make_row("history, in pages of 1000: reads that reach the primary", before, count_chunks(http), 0.01)
        ours, beside = rate(rounds.median("replica")), rate(rounds.median("primary"))
        yield Row("history: a hub with a replica beside one without", ours, beside, rounds.ratio("replica", "primary"))

        publisher = stack.enter_context(Program("bench.load.batches_paced", port=plain.port, feed=FEED, batch=BATCH))
        for what, pause in (("that waits for each batch", 0.0), ("that asks once a second", 1.0)):
            before = count_chunks(http)
            with following(hub, pause):
                publisher(seconds=scale.seconds, per_second=BATCHES_PER_SECOND)
            yield make_row(f"a reader at the head {what}: reads that reach the primary", before, count_chunks(http))
    place.drop(url)


def metrics(http: httpx2.Client) -> str:
    """Return the metrics of a hub about replicas."""
    lines = http.get("/metrics").text.splitlines()
    return "\n".join(line for line in lines if line.startswith(("penstock_replica_up{", "penstock_chunk_reads_total{")))


def count_chunks(http: httpx2.Client) -> Chunks:
    """Return how many chunks the hub has read so far."""
    counts = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in metrics(http).splitlines()
        if line.startswith("penstock_chunk_reads_total{")
    }
    primary = next(value for name, value in counts.items() if 'source="primary"' in name)
    return Chunks(primary, sum(counts.values()))


def make_row(what: str, before: Chunks, after: Chunks, most: float | None = None) -> Row:
    """Return the row of a share: of the chunks between two counts, those of the primary."""
    primary, count = after.primary - before.primary, after.all - before.all
    share = primary / max(1.0, count)
    return Row(what, f"{share:.1%} of {count:.0f}", "", share, None if most is None else Target("<=", most))


@contextmanager
def following(hub: LiveHub, pause: float) -> Iterator[None]:
    """Have a reader follow the end of the feed, and pause so many seconds after each page, while the block runs."""
    over = threading.Event()

    def follow() -> None:
        cursor = "_last"
        with httpx2.Client(base_url=hub.url, timeout=60.0) as http:
            while not over.is_set():
                path = f"/feeds/{FEED}?n=1&cursor0={cursor}&pagesizehint={PAGE}&wait=1"
                cursor = json.loads(http.get(path).text.splitlines()[-1])["cursor"]
                time.sleep(pause)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
