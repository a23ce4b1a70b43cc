"""How fast Spark reads sealed events as typed columns, from the files of the cold tier."""

import json
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.cold import seal
from bench.figures.spark import WARM_UP_ROUNDS
from bench.load.program import Program
from bench.logs import make_feed
from bench.measure import Side, in_turn
from bench.place import Place
from penstock.core.events.event import NewEvent
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.live_hub import live_hub

PARTITIONS: Final = 4
BATCH: Final = 1_000
TEN: Final = range(10)
SCHEMA: Final = {
    "type": "object",
    "properties": {f"count_{n}": {"type": "integer"} for n in TEN}
    | {f"amount_{n}": {"type": "number"} for n in TEN}
    | {f"name_{n}": {"type": "string"} for n in TEN},
}
"""Thirty members."""


@figure("spark-cold", "spark", asked_for=True)
def spark_cold(place: Place, scale: Scale) -> Iterable[Row]:
    """Sealed events of thirty members read by Spark into noop as typed columns, from the third run on, SQLite."""
    count = 40_000 if scale.quick else 3_000_000
    url, files, tier = place.sqlite(), place.directory / "files", place.directory / "cold"
    files.mkdir()
    publish(url, count, files / "events.ndjson")
    seal(url, tier.as_uri())
    options = ["--cold", tier.as_uri(), "--cold-after", "never"]
    given = {"feed": FEED, "files": str(files), "cold": str(tier)}
    with (
        live_hub(url, log=place.log, options=options) as hub,
        Program("bench.load.spark_cold", url=hub.url, **given) as program,
    ):
        sides = {what: _rate_of(program, what, count) for what in ("cold", "parquet", "json", "three", "hub")}
        rounds = in_turn(sides, 1 if scale.quick else 5, warm_up=WARM_UP_ROUNDS)
    for ours, beside, what, target in (
        ("cold", "json", "with `coldTier` beside `spark.read.json` of files of the same events, with a schema", 1.5),
        ("cold", "parquet", "with `coldTier` beside `spark.read.parquet` of the same columns", 0.7),
        ("three", "cold", "three of the thirty members beside all", 4.0),
        ("cold", "hub", "with `coldTier` beside the same through the hub", None),
    ):
        yield Row(
            what,
            rate(rounds.median(ours)),
            rate(rounds.median(beside)),
            rounds.ratio(ours, beside),
            None if target is None else Target(">=", target),
        )
    place.drop(url)


def publish(url: str, count: int, lines: Path) -> None:
    """Publish *count* events, and write them into a file, too."""
    make_feed(url, PARTITIONS, SCHEMA)
    hub, events = Hub(open_store(url)), wide_events(count)
    try:
        with lines.open("wb") as file:
            for number, batch in enumerate(iter(lambda: [*islice(events, BATCH)], [])):
                file.write(b"".join(text + b"\n" for text in batch))
                hub.log.publish(FEED, [NewEvent.of(text, partition=number % PARTITIONS) for text in batch])
    finally:
        hub.stop()


def wide_events(count: int) -> Iterator[bytes]:
    """Yield events of thirty members: numbers, amounts, and names of which there are a thousand."""
    chance = random.Random(1)
    for number in range(count):
        counts = {f"count_{n}": number if n == 0 else chance.randrange(10**n) for n in TEN}
        amounts = {f"amount_{n}": round(chance.random() * 1_000, 2) for n in TEN}
        names = {f"name_{n}": f"customer-{chance.randrange(1_000):05}" for n in TEN}
        yield json.dumps(counts | amounts | names, separators=(",", ":")).encode()


def _rate_of(program: Program, what: str, count: int) -> Side:
    return lambda: count / float(program(what=what)["seconds"])
