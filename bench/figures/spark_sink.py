"""How fast Spark publishes."""

from collections.abc import Iterable
from contextlib import ExitStack

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure, rate
from bench.figures.feed_read import rate_of
from bench.figures.spark import write_files
from bench.load.program import Program
from bench.logs import make_feed
from bench.measure import Side, in_turn
from bench.place import Place


@figure("spark-sink", "spark")
def spark_sink(place: Place, scale: Scale) -> Iterable[Row]:
    """Spark batch write into a feed, beside plain publishing of batches of 1000 over one connection."""
    count = 10_000 if scale.quick else 400_000
    files = place.directory / "files"
    write_files(files, count)
    for kind in ("SQLite", "PostgreSQL"):
        url = place.database(kind)
        make_feed(url)
        with ExitStack() as stack:
            hub = stack.enter_context(place.hub(url))
            plain = stack.enter_context(Program("bench.load.publish", port=hub.port, feed=FEED, batch=1000))
            sink = stack.enter_context(Program("bench.load.spark_sink", url=hub.url, feed=FEED, files=str(files)))
            sides = {"plain": rate_of(plain, scale), "spark": _rate_of(sink, count)}
            rounds = in_turn(sides, 1 if scale.quick else 3, warm_up=1)
        place.drop(url)
        ours, beside = rate(rounds.median("spark")), rate(rounds.median("plain"))
        yield Row(kind, ours, beside, rounds.ratio("spark", "plain"), Target(">=", 0.9))


def _rate_of(program: Program, count: int) -> Side:
    return lambda: count / float(program()["seconds"])
