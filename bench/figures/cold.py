"""How fast sealed events are read and sealed, beside those in the database, and how small files are."""

import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.feed_read import rate_of, reader
from bench.figures.processing import DEPARTURES
from bench.load.program import Program
from bench.logs import make_log
from bench.measure import in_turn
from bench.place import Place
from penstock.client import Client
from penstock.hub.cold.files import list_files
from penstock.hub.cold.sealing import SealingOptions
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.live_hub import live_hub
from penstock_demo.dataset import load

LINES, ARROW, SEALING, BESIDE = (Target(">=", each) for each in (0.5, 1.0, 1.0, 0.85))
SIZE = Target("<=", 0.25)
BACKLOG = 6_000_000
"""So many events are still to be sealed while others are published."""


@figure("cold", "lifetime", asked_for=True)
def cold(place: Place, scale: Scale) -> Iterable[Row]:
    """Sealed events beside those in the database, SQLite."""
    hot, sealed = place.sqlite(), place.sqlite()
    tier = place.directory / "cold"
    for each in (hot, sealed):
        make_log(each, scale.events)
    took = seal(sealed, tier.as_uri())
    with ExitStack() as stack:
        served = stack.enter_context(live_hub(hot, log=place.log))
        options = ["--cold", tier.as_uri(), "--cold-after", "never"]
        tiered = stack.enter_context(live_hub(sealed, log=place.log, options=options))
        for form, what, target in (("v1", "NDJSON", LINES), ("arrow", "Arrow", ARROW)):
            sides = {
                "hot": rate_of(stack.enter_context(reader(served.port, form, scale)), scale),
                "cold": rate_of(stack.enter_context(reader(tiered.port, form, scale)), scale),
            }
            rounds = in_turn(sides, scale.rounds)
            ours, beside = rate(rounds.median("cold")), rate(rounds.median("hot"))
            yield Row(
                f"a feed as {what}: sealed beside in the database", ours, beside, rounds.ratio("cold", "hot"), target
            )
        publish = Program("bench.load.publish", port=served.port, feed=FEED, batch=1000)
        published = float(stack.enter_context(publish)(seconds=scale.seconds)["rate"])
    yield Row(
        "sealing, beside publishing batches of 1000",
        rate(scale.events / took),
        rate(published),
        scale.events / took / published,
        SEALING,
    )
    for each in (hot, sealed):
        place.drop(each)
    yield measure_files(place, 5_000 if scale.quick else None)


def measure_files(place: Place, rows: int | None) -> Row:
    """Seal flights of the demo, all of the year or the first *rows*, and compare the files with the events' JSON."""
    [flights] = (each for each in load(rows) if each.event_type == DEPARTURES)
    url, tier = place.sqlite(), place.directory / "flights"
    with place.hub(url) as hub, Client(hub.url) as client:
        client.create_event_type(DEPARTURES, more=flights.definition)
        client.publish(DEPARTURES, flights.events())
    seal(url, tier.as_uri())
    store = open_store(url, tier.as_uri())
    try:
        files = [each.file for each in list_files(store)]
    finally:
        store.close()
    place.drop(url)
    ours, beside = sum(each.file_bytes for each in files) / 1e6, sum(each.content.data_bytes for each in files) / 1e6
    what = "files of the flights, with typed columns, beside their JSON"
    return Row(what, f"{ours:.1f} MB", f"{beside:.1f} MB", ours / beside, SIZE)


@figure("sealing", "lifetime", asked_for=True)
def sealing(place: Place, scale: Scale) -> Iterable[Row]:
    """What publishing feels of a hub that seals; by name only."""
    for kind in ("SQLite", "PostgreSQL"):
        url, tier = place.database(kind), place.directory / f"cold-{kind}"
        make_log(url, scale.events if scale.quick else BACKLOG)

        def publish(url: str = url, tier: Path = tier, after: str = "never") -> float:
            options = ["--cold", tier.as_uri(), "--cold-after", after]
            with (
                live_hub(url, log=place.log, options=options) as hub,
                Program("bench.load.publish", port=hub.port, feed=FEED, batch=1000) as publisher,
            ):
                before = count_sealed(url, tier)
                found = float(publisher(seconds=6 * scale.seconds)["rate"])
                assert after == "never" or scale.quick or before < count_sealed(url, tier) < BACKLOG
                hub.stop()  # A file that a killed hub was writing would keep the next from sealing.
                return found

        rounds = in_turn({"never": publish, "0s": partial(publish, after="0s")}, 3, warm_up=0)
        ours, beside = (rate(rounds.median(each)) for each in ("0s", "never"))
        yield Row(
            f"{kind}: publishing batches of 1000 while a backlog is sealed, beside without sealing",
            ours,
            beside,
            rounds.ratio("0s", "never"),
            BESIDE,
        )
        place.drop(url)


def count_sealed(url: str, tier: Path) -> int:
    """Return how many events of a database are in files."""
    store = open_store(url, tier.as_uri())
    try:
        return sum(each.file.content.events for each in list_files(store))
    finally:
        store.close()


def seal(url: str, cold: str) -> float:
    """Seal a log, and return how many seconds that took."""
    hub = Hub(open_store(url, cold), sealing=SealingOptions(0.0))
    try:
        began = time.monotonic()
        while hub.cold.sealer.run():
            pass
        took = time.monotonic() - began
        assert list_files(hub.store)
        with hub.store.read() as tx:
            unswept = tx.removal.list_unswept(10)
        for partition_id, start, stop in unswept:
            for at in range(start, stop, 20_000):
                with hub.store.write() as tx:
                    tx.removal.delete(partition_id, at, min(stop, at + 20_000))
        return took
    finally:
        hub.stop()
