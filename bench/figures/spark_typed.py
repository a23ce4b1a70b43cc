"""How fast Spark reads a feed as typed columns."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from bench.events import BUSINESS_SCHEMA, FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.spark import WARM_UP_ROUNDS, write_files
from bench.load.program import Program
from bench.logs import make_log
from bench.measure import Rounds, Side, in_turn
from bench.place import Place
from tests.kafka import connector, kafka_broker

PARTITIONS = 4


@figure("spark-typed", "spark")
def spark_typed(place: Place, scale: Scale) -> Iterable[Row]:
    """Spark batch read of the feed as typed columns, from the third run on."""
    count = 40_000 if scale.quick else 1_000_000
    with reading(place, count) as program:
        noop = _rounds(program, ("SQLite", "PostgreSQL", "kafka", "json"), "noop", count, scale)
        parquet = _rounds(program, ("SQLite", "PostgreSQL", "json"), "parquet", count, scale)
    files = "`spark.read.json` of files of the same events, with the same schema"
    for rounds, feed, side, what, target in (
        (noop, "SQLite", "kafka", "into noop: feed beside Kafka through Spark's connector and `from_json`", 2.0),
        (noop, "SQLite", "json", f"into noop: feed beside {files}", 1.0),
        (noop, "PostgreSQL", "json", f"into noop: feed beside {files}", 0.8),
        (parquet, "SQLite", "json", f"into Parquet: feed beside {files}", 0.6),
        (parquet, "PostgreSQL", "json", f"into Parquet: feed beside {files}", 0.6),
    ):
        ours, beside = rate(rounds.median(feed)), rate(rounds.median(side))
        yield Row(f"{feed}: {what}", ours, beside, rounds.ratio(feed, side), Target(">=", target))


@contextmanager
def reading(place: Place, count: int) -> Iterator[Program]:
    """Run what reads *count* events that are in a feed on each database, in Kafka, and in files."""
    files, broker = place.directory / "files", place.directory / "kafka"
    write_files(files, count)
    broker.mkdir()
    with ExitStack() as stack:
        hubs = {}
        for kind in ("SQLite", "PostgreSQL"):
            url = place.database(kind)
            make_log(url, count, PARTITIONS, BUSINESS_SCHEMA)
            hubs[kind] = stack.enter_context(place.hub(url)).url
        address = stack.enter_context(kafka_broker(broker, partitions=PARTITIONS))
        kafka = {"broker": address, "jars": connector(), "events": count, "partitions": PARTITIONS}
        given = {"hubs": hubs, "feed": FEED, "files": str(files), "directory": str(place.directory)}
        yield stack.enter_context(Program("bench.load.spark_typed", **given, **kafka))


def _rounds(program: Program, sides: Iterable[str], into: str, count: int, scale: Scale) -> Rounds:
    def rate_of(what: str) -> Side:
        return lambda: count / float(program(what=what, into=into)["seconds"])

    return in_turn({what: rate_of(what) for what in sides}, 1 if scale.quick else 5, warm_up=WARM_UP_ROUNDS)
