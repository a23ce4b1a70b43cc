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


@figure("spark-typed")
def spark_typed(place: Place, scale: Scale) -> Iterable[Row]:
    """Spark batch read of the feed as typed columns, from the third run on, SQLite."""
    count = 40_000 if scale.quick else 1_000_000
    with reading(place, count) as program:
        noop = _rounds(program, ("feed", "kafka", "json"), "noop", count, scale)
        parquet = _rounds(program, ("feed", "json"), "parquet", count, scale)
    files = "`spark.read.json` of files of the same events, with the same schema"
    for rounds, side, what, target in (
        (noop, "kafka", "into noop: feed beside Kafka through Spark's connector and `from_json`", 2.0),
        (noop, "json", f"into noop: feed beside {files}", 0.5),
        (parquet, "json", f"into Parquet: feed beside {files}", 0.6),
    ):
        ours, beside = rate(rounds.median("feed")), rate(rounds.median(side))
        yield Row(what, ours, beside, rounds.ratio("feed", side), Target(">=", target))


@contextmanager
def reading(place: Place, count: int) -> Iterator[Program]:
    """Run what reads *count* events that are in a feed, in Kafka, and in files."""
    url, files, broker = place.sqlite(), place.directory / "files", place.directory / "kafka"
    make_log(url, count, PARTITIONS, BUSINESS_SCHEMA)
    write_files(files, count)
    broker.mkdir()
    with ExitStack() as stack:
        hub = stack.enter_context(place.hub(url))
        address = stack.enter_context(kafka_broker(broker, partitions=PARTITIONS))
        kafka = {"broker": address, "jars": connector(), "events": count, "partitions": PARTITIONS}
        given = {"url": hub.url, "feed": FEED, "files": str(files), "directory": str(place.directory)}
        yield stack.enter_context(Program("bench.load.spark_typed", **given, **kafka))


def _rounds(program: Program, sides: Iterable[str], into: str, count: int, scale: Scale) -> Rounds:
    def rate_of(what: str) -> Side:
        return lambda: count / float(program(what=what, into=into)["seconds"])

    return in_turn({what: rate_of(what) for what in sides}, 1 if scale.quick else 5, warm_up=WARM_UP_ROUNDS)
