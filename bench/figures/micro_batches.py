"""What a small micro-batch costs."""

from collections.abc import Iterable

from bench.events import FEED
from bench.figure import Row, Scale, Target, figure
from bench.load.program import Program
from bench.logs import make_log
from bench.measure import Side, in_turn
from bench.place import Place

EVENTS = 10
WARM_UP_ROUNDS = 3
"""Spark needs more than a hundred micro-batches to reach its speed."""
BATCHES_MAX = 1_000
"""More than a stream gets to before it is stopped."""


@figure("spark-micro-batch", "spark")
def micro_batch(place: Place, scale: Scale) -> Iterable[Row]:
    """Spark stream of micro-batches of 10 events into noop, SQLite."""
    url = place.sqlite()
    make_log(url, BATCHES_MAX * EVENTS)
    given = {"feed": FEED, "events": EVENTS, "directory": str(place.directory)}
    with place.hub(url) as hub, Program("bench.load.micro_batches", url=hub.url, **given) as program:
        sides = {what: _duration_of(program, what, 5 if scale.quick else 40) for what in ("feed", "rate")}
        rounds = in_turn(sides, 1 if scale.quick else 5, warm_up=1 if scale.quick else WARM_UP_ROUNDS)
    ours, beside = (f"{rounds.median(what):.0f} ms" for what in sides)
    ratio = rounds.ratio("feed", "rate")
    yield Row("feed beside Spark's own `rate-micro-batch` of as many rows", ours, beside, ratio, Target("<=", 1.3))


def _duration_of(program: Program, what: str, batches: int) -> Side:
    return lambda: float(program(what=what, batches=batches)["milliseconds"])
